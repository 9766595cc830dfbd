package dev.listwatch.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.listwatch.client.Listing;
import dev.listwatch.client.ListwatchClient;
import dev.listwatch.client.ListwatchException;
import dev.listwatch.client.Reflector;
import dev.listwatch.v1.CreateRequest;
import dev.listwatch.v1.DeleteRequest;
import dev.listwatch.v1.GetRequest;
import dev.listwatch.v1.GetResponse;
import dev.listwatch.v1.Key;
import dev.listwatch.v1.ListRequest;
import dev.listwatch.v1.Resource;
import dev.listwatch.v1.Selector;
import dev.listwatch.v1.UpdateRequest;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeoutException;

/** Does what {@code client/conformance/run.py} asks, as its README says. */
public final class Agent {
  private final Lines lines = new Lines();

  /** Calls and waits must not hold up others. */
  private final ExecutorService calls = Executors.newCachedThreadPool();

  private final Map<String, ToldWatch> watches = new HashMap<>();
  private final Map<String, ToldReflector> reflectors = new HashMap<>();
  private ListwatchClient client;

  private interface Command {
    JsonObject run() throws InterruptedException, TimeoutException;
  }

  private Agent() {}

  /**
   * Ends when its input ends.
   *
   * @param arguments none
   * @throws IOException if the input cannot be read
   */
  public static void main(String[] arguments) throws IOException {
    Agent agent = new Agent();
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      agent.take(JsonParser.parseString(line).getAsJsonObject());
    }
    // Nothing here is worth an orderly end, and the runner waits for it.
    Runtime.getRuntime().halt(0);
  }

  private void take(JsonObject command) {
    switch (command.get("do").getAsString()) {
      case "create", "update", "delete", "get", "list" -> {
        ListwatchClient connected = client;
        calls.execute(() -> answer(command, () -> call(command, connected)));
      }
      case "wait_until_ready", "wait_for_revision" -> {
        ToldReflector reflector = reflectors.get(command.get("name").getAsString());
        calls.execute(() -> answer(command, () -> waited(command, reflector.reflector())));
      }
      default -> answer(command, () -> atOnce(command));
    }
  }

  private void answer(JsonObject command, Command act) {
    JsonObject answer = new JsonObject();
    answer.add("id", command.get("id"));
    try {
      answer.add("ok", act.run());
    } catch (ListwatchException error) {
      answer.add("error", Json.error(error));
    } catch (TimeoutException late) {
      answer.add("error", Json.error("TIMEOUT", late.getMessage()));
    } catch (InterruptedException | RuntimeException fault) {
      answer.add("error", Json.error("UNKNOWN", "the agent failed: " + fault));
    }
    lines.write(answer);
  }

  private JsonObject atOnce(JsonObject command) {
    switch (command.get("do").getAsString()) {
      case "connect" -> connect(command);
      case "watch" -> {
        String name = command.get("name").getAsString();
        var watcher = client.watch(selector(command), Json.options(command));
        watches.put(name, new ToldWatch(name, watcher, lines));
      }
      case "reflect" -> {
        String name = command.get("name").getAsString();
        Reflector<Resource> reflector =
            client.reflect(selector(command), Json.options(command), resource -> resource);
        reflectors.put(name, new ToldReflector(name, reflector, lines));
      }
      case "pause", "resume" -> {
        boolean pause = command.get("do").getAsString().equals("pause");
        watches.get(command.get("name").getAsString()).setPaused(pause);
      }
      case "state" -> {
        var reflector = reflectors.get(command.get("name").getAsString()).reflector();
        return Json.state(reflector.status());
      }
      case "close" -> close(command.get("name").getAsString());
      default -> throw new IllegalArgumentException("no such command: " + command);
    }
    return new JsonObject();
  }

  private void connect(JsonObject command) {
    ListwatchClient.Builder builder =
        ListwatchClient.builder().address(command.get("address").getAsString());
    if (command.has("request_timeout")) {
      builder.requestTimeout(Json.duration(command.get("request_timeout")));
    }
    client = builder.build();
  }

  private void close(String name) {
    if (watches.containsKey(name)) {
      watches.get(name).close();
    }
    if (reflectors.containsKey(name)) {
      reflectors.get(name).close();
    }
  }

  private static JsonObject call(JsonObject command, ListwatchClient client) {
    JsonObject ok = new JsonObject();
    switch (command.get("do").getAsString()) {
      case "create" -> {
        CreateRequest request =
            CreateRequest.newBuilder().setResource(resource(command)).build();
        ok.add("resource", Json.of(client.create(request)));
      }
      case "update" -> {
        UpdateRequest.Builder request = UpdateRequest.newBuilder().setResource(resource(command));
        if (command.has("if_revision")) {
          request.setIfRevision(command.get("if_revision").getAsLong());
        }
        if (command.has("allow_missing")) {
          request.setAllowMissing(command.get("allow_missing").getAsBoolean());
        }
        ok.add("resource", Json.of(client.update(request.build())));
      }
      case "delete" -> {
        DeleteRequest.Builder request = DeleteRequest.newBuilder().setKey(key(command));
        if (command.has("if_revision")) {
          request.setIfRevision(command.get("if_revision").getAsLong());
        }
        ok.add("resource", Json.of(client.delete(request.build())));
      }
      case "get" -> {
        GetResponse response = client.get(GetRequest.newBuilder().setKey(key(command)).build());
        ok.add("resource", Json.of(response.getResource()));
        ok.addProperty("revision", response.getRevision());
      }
      default -> {
        ListRequest.Builder request = ListRequest.newBuilder().setSelector(selector(command));
        if (command.has("page_size")) {
          request.setPageSize(command.get("page_size").getAsInt());
        }
        Listing listing = client.list(request.build());
        JsonArray resources = new JsonArray();
        for (Resource resource : listing) {
          resources.add(Json.of(resource));
        }
        ok.add("resources", resources);
        ok.addProperty("revision", listing.revision());
        ok.addProperty("resume_token", listing.resumeToken().text());
      }
    }
    return ok;
  }

  private static JsonObject waited(JsonObject command, Reflector<Resource> reflector)
      throws InterruptedException, TimeoutException {
    var timeout = Json.duration(command.get("timeout"));
    if (command.has("revision")) {
      reflector.waitForRevision(command.get("revision").getAsLong(), timeout);
    } else {
      reflector.waitUntilReady(timeout);
    }
    return Json.state(reflector.status());
  }

  private static Selector selector(JsonObject command) {
    return Json.read(command.get("selector"), Selector.newBuilder()).build();
  }

  private static Resource resource(JsonObject command) {
    return Json.read(command.get("resource"), Resource.newBuilder()).build();
  }

  private static Key key(JsonObject command) {
    return Json.read(command.get("key"), Key.newBuilder()).build();
  }
}
