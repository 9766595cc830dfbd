package dev.listwatch.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.channels.ClosedChannelException;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class ListwatchExceptionTest {
  @Test
  void whatTheServerSaidIsKept() {
    ListwatchException error =
        ListwatchException.of(Messages.status(Status.Code.ABORTED, "REVISION_MISMATCH"));
    assertInstanceOf(ConflictException.class, error);
    assertEquals("REVISION_MISMATCH", error.reason());
    assertEquals("said so", error.serverMessage());
    assertEquals("ABORTED: said so", error.getMessage());
    assertEquals(Map.of("revision", "7"), error.metadata());
    assertEquals(7, error.number("revision").orElseThrow());
    assertTrue(error.number("latest_revision").isEmpty());
    assertEquals(Optional.empty(), error.retryAfter());
    assertFalse(error.isRetryable());
  }

  @Test
  void aLimitIsRetryableIfTheServerSaysWhen() {
    var delay = Duration.ofMillis(150);
    var soon = Messages.status(Status.Code.RESOURCE_EXHAUSTED, "TOO_MANY_REQUESTS", delay);
    assertTrue(ListwatchException.of(soon).isRetryable());
    assertEquals(Optional.of(delay), ListwatchException.of(soon).retryAfter());
    var full = Messages.status(Status.Code.RESOURCE_EXHAUSTED, "STORAGE_FULL");
    assertFalse(ListwatchException.of(full).isRetryable());
  }

  @Test
  void aConnectionThatGoesWhileACallBeginsIsUnavailableAndTriedAgain() {
    var closed = Status.UNKNOWN.withDescription("channel closed");
    var lost = closed.withCause(new ClosedChannelException());
    assertEquals(Status.Code.UNAVAILABLE, ListwatchException.of(lost, null).code());
    assertTrue(ListwatchException.of(lost, null).isRetryable());
    // The same words of a server are what it says.
    assertEquals(Status.Code.UNKNOWN, ListwatchException.of(closed, null).code());
    var fault = closed.withCause(new IllegalStateException());
    assertEquals(Status.Code.UNKNOWN, ListwatchException.of(fault, null).code());
  }

  @Test
  void exceptionsCanBeSerialized() throws Exception {
    var bytes = new ByteArrayOutputStream();
    try (var out = new ObjectOutputStream(bytes)) {
      out.writeObject(ListwatchException.of(Messages.status(Status.Code.NOT_FOUND, "OBJECT_NOT_FOUND")));
    }
    try (var in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
      assertEquals("OBJECT_NOT_FOUND", ((NotFoundException) in.readObject()).reason());
    }
  }
}
