package dev.listwatch.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.listwatch.client.Disconnect.Cause;
import dev.listwatch.v1.Selector;
import io.grpc.Status.Code;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

class RecoveryTest {
  private static final Optional<Duration> NEVER = Optional.empty();
  private static final Optional<Duration> SHORT = Optional.of(Duration.ofMillis(10));
  private static final Optional<Duration> GOOD = Optional.of(Duration.ofSeconds(1));

  private final WatchOptions options = WatchOptions.DEFAULT.withRandomness(() -> 1);

  @Test
  void eachCodeHasItsVerdict() {
    Set<Code> resumed =
        EnumSet.of(
            Code.UNAVAILABLE,
            Code.INTERNAL,
            Code.UNKNOWN,
            Code.CANCELLED,
            Code.ABORTED,
            Code.DEADLINE_EXCEEDED);
    Set<Code> others = EnumSet.of(Code.OK, Code.OUT_OF_RANGE, Code.DATA_LOSS);
    for (Code code : Code.values()) {
      if (!others.contains(code)) {
        Verdict expected = resumed.contains(code) ? Verdict.RESUME : Verdict.REFUSED;
        assertEquals(expected, Verdict.of(error(code, "")), code.name());
      }
    }
    assertEquals(Verdict.START_OVER, Verdict.of(error(Code.OUT_OF_RANGE, "REVISION_COMPACTED")));
    assertEquals(Verdict.START_OVER, Verdict.of(error(Code.OUT_OF_RANGE, "STORE_CHANGED")));
    assertEquals(Verdict.AHEAD, Verdict.of(error(Code.OUT_OF_RANGE, "REVISION_IN_FUTURE")));
    assertEquals(Verdict.UNEXPLAINED, Verdict.of(error(Code.OUT_OF_RANGE, "SOMETHING_NEW")));
    assertEquals(Verdict.BAD_TOKEN, Verdict.of(error(Code.INVALID_ARGUMENT, "TOKEN_INVALID")));
    assertEquals(Verdict.DATA_LOSS, Verdict.of(error(Code.DATA_LOSS, "STORE_DAMAGED")));
  }

  @Test
  void onlyALongLifeBeginsTheBackoffAnew() {
    Recovery recovery = new Recovery(position(), options);
    assertEquals(800, millisAfter(recovery, Code.UNAVAILABLE, NEVER));
    assertEquals(1600, millisAfter(recovery, Code.UNAVAILABLE, GOOD));
    assertEquals(
        800, millisAfter(recovery, Code.UNAVAILABLE, Optional.of(Duration.ofSeconds(120))));
  }

  @Test
  void aPoliteEndIsAFailureIfItComesAtOnce() {
    Recovery recovery = new Recovery(position(), options);
    assertEquals(200, recovery.after(Disconnect.by(Cause.ENDED), GOOD).toMillis());
    assertEquals(800, recovery.after(Disconnect.by(Cause.ENDED), SHORT).toMillis());
  }

  @Test
  void goingAwayTwiceAtOnceIsBackedOffFrom() {
    Recovery recovery = new Recovery(position(), options);
    Disconnect away = Disconnect.by(Cause.GOING_AWAY);
    assertEquals(200, recovery.after(away, SHORT).toMillis());
    assertEquals(800, recovery.after(away, SHORT).toMillis());
    assertEquals(200, recovery.after(away, GOOD).toMillis());
  }

  @Test
  void theServersDelayCountsAndATenthIsAdded() {
    Recovery recovery = new Recovery(position(), options);
    var error = Messages.status(Code.UNAVAILABLE, "NOT_READY", Duration.ofSeconds(2));
    assertEquals(2200, recovery.after(disconnect(error), NEVER).toMillis());
    error = Messages.status(Code.UNAVAILABLE, "NOT_READY", Duration.ZERO);
    assertEquals(110, recovery.after(disconnect(error), NEVER).toMillis());
  }

  @Test
  void aRevisionInTheFutureIsGivenUpAtTheFifthTime() {
    Position position = position();
    position.pass(new Event.Bookmark(Messages.point(9)));
    Recovery recovery = new Recovery(position, options);
    Disconnect ahead = disconnect(Messages.status(Code.OUT_OF_RANGE, "REVISION_IN_FUTURE"));
    for (int time = 1; time < 5; time++) {
      recovery.after(ahead, NEVER);
      assertTrue(position.token().isPresent());
    }
    recovery.after(ahead, NEVER);
    assertTrue(position.asksForState());
  }

  @Test
  void onlyATokenOfTheServersMayGoBad() {
    Start mine = new Start.After(new ResumeToken("mine"));
    Position position = new Position(Selector.getDefaultInstance(), options.withStart(mine));
    Recovery recovery = new Recovery(position, options);
    Disconnect bad = disconnect(Messages.status(Code.INVALID_ARGUMENT, "TOKEN_INVALID"));
    assertThrows(RefusedException.class, () -> recovery.after(bad, NEVER));
    position.pass(new Event.Resumed(Messages.point(5)));
    assertFalse(position.asksForState());
    recovery.after(bad, NEVER);
    assertTrue(position.asksForState());
  }

  @Test
  void expiryEndsTheWatchThatAsksForIt() {
    WatchOptions strict = options.withOnExpired(WatchOptions.OnExpired.FAIL);
    Recovery recovery = new Recovery(position(), strict);
    Disconnect compacted = disconnect(Messages.status(Code.OUT_OF_RANGE, "REVISION_COMPACTED"));
    var end = assertThrows(ExpiredException.class, () -> recovery.after(compacted, NEVER));
    assertEquals("REVISION_COMPACTED", end.reason());
  }

  private Position position() {
    return new Position(Selector.getDefaultInstance(), options);
  }

  private static ListwatchException error(Code code, String reason) {
    return ListwatchException.of(Messages.status(code, reason));
  }

  private static Disconnect disconnect(io.grpc.StatusRuntimeException status) {
    return Disconnect.by(ListwatchException.of(status));
  }

  private static long millisAfter(Recovery recovery, Code code, Optional<Duration> lived) {
    return recovery.after(disconnect(Messages.status(code, "")), lived).toMillis();
  }
}
