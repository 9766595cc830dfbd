package dev.listwatch.conformance;

import dev.listwatch.client.ListwatchClient;
import dev.listwatch.client.ListwatchException;
import dev.listwatch.v1.Selector;
import io.grpc.Server;
import io.grpc.ServerBuilder;
import java.io.IOException;

/**
 * A watch of a server that has none, within this process. The cases time the client's first calls, and in a
 * new Java process on a busy machine the first call of all takes more than a second, for the loading of
 * classes.
 */
final class Rehearsal {
  private Rehearsal() {}

  static void run() throws IOException {
    Server server = ServerBuilder.forPort(0).build().start();
    try (ListwatchClient client = ListwatchClient.connect("127.0.0.1:" + server.getPort());
        var watcher = client.watch(Selector.getDefaultInstance())) {
      watcher.iterator().forEachRemaining(Json::event);
    } catch (ListwatchException unimplemented) {
      Json.error(unimplemented);
    } finally {
      server.shutdownNow();
    }
  }
}
