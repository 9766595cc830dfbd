package dev.listwatch.client;

import dev.listwatch.v1.GetRequest;
import dev.listwatch.v1.GetResponse;
import dev.listwatch.v1.ListWatchServiceGrpc;
import dev.listwatch.v1.WatchRequest;
import dev.listwatch.v1.WatchResponse;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A server within the process whose streams a test holds in its hand. */
final class ScriptedServer extends ListWatchServiceGrpc.ListWatchServiceImplBase
    implements AutoCloseable {
  /** One call of Watch. */
  record Stream(WatchRequest request, ServerCallStreamObserver<WatchResponse> out) {}

  private final BlockingQueue<Stream> streams = new LinkedBlockingQueue<>();
  private final Server server;
  private final ManagedChannel channel;

  ScriptedServer() throws IOException {
    String name = InProcessServerBuilder.generateName();
    server = InProcessServerBuilder.forName(name).addService(this).build().start();
    channel = InProcessChannelBuilder.forName(name).build();
  }

  ListwatchClient client() {
    return ListwatchClient.builder().channel(channel).build();
  }

  Stream nextStream() throws InterruptedException {
    Stream stream = streams.poll(10, TimeUnit.SECONDS);
    if (stream == null) {
      throw new AssertionError("no stream was opened");
    }
    return stream;
  }

  @Override
  public void watch(WatchRequest request, StreamObserver<WatchResponse> out) {
    var observer = (ServerCallStreamObserver<WatchResponse>) out;
    observer.setOnCancelHandler(() -> {});
    streams.add(new Stream(request, observer));
  }

  /** Is never answered. */
  @Override
  public void get(GetRequest request, StreamObserver<GetResponse> out) {}

  @Override
  public void close() {
    channel.shutdownNow();
    server.shutdownNow();
  }
}
