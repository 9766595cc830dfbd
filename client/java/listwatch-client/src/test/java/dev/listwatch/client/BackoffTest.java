package dev.listwatch.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class BackoffTest {
  @Test
  void delaysDoubleFrom800MsTo30S() {
    Backoff backoff = new Backoff(BackoffBounds.DEFAULT, () -> 1);
    List<Long> delays = Stream.generate(backoff::nextDelay).limit(8).map(Duration::toMillis).toList();
    assertEquals(List.of(800L, 1600L, 3200L, 6400L, 12800L, 25600L, 30000L, 30000L), delays);
    backoff.reset();
    assertEquals(Duration.ofMillis(800), backoff.nextDelay());
  }

  @Test
  void jitterIsFull() {
    assertEquals(Duration.ZERO, new Backoff(BackoffBounds.DEFAULT, () -> 0).nextDelay());
    assertEquals(
        Duration.ofMillis(400), new Backoff(BackoffBounds.DEFAULT, () -> 0.5).nextDelay());
  }
}
