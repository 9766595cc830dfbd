package dev.listwatch.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The README's first program, as it stands there. Run only where LISTWATCH_ADDRESS names a server. */
class QuickstartTest {
  private static final Path README = Path.of("..", "README.md");

  @TempDir private Path folder;
  private Path source;
  private String text;

  @BeforeEach
  void takeFromReadme() throws IOException {
    Matcher block =
        Pattern.compile("```java\n(.*?)```", Pattern.DOTALL).matcher(Files.readString(README));
    assertTrue(block.find());
    text = block.group(1);
    source = Files.writeString(folder.resolve("Quickstart.java"), text);
  }

  @Test
  void itIsShortAndCompiles() {
    assertTrue(text.lines().count() <= 20, "more than 20 lines");
    String[] arguments = {
      "-cp", System.getProperty("java.class.path"), "-Xlint:all", "-Werror", "-d",
      folder.toString(), source.toString()
    };
    assertEquals(
        0, ToolProvider.getSystemJavaCompiler().run(null, null, null, arguments));
  }

  @Test
  void itRunsAndEnds() throws Exception {
    assumeTrue(System.getenv("LISTWATCH_ADDRESS") != null, "no server to run it against");
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                System.getProperty("java.class.path"),
                source.toString())
            .redirectErrorStream(true)
            .start();
    String output = new String(process.getInputStream().readAllBytes());
    assertTrue(process.waitFor(60, TimeUnit.SECONDS));
    assertEquals("applied quickstart\ndeleted quickstart\n", output);
    assertEquals(0, process.exitValue());
  }
}
