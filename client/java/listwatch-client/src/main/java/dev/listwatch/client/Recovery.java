package dev.listwatch.client;

import dev.listwatch.client.WatchOptions.OnExpired;
import java.time.Duration;
import java.util.Optional;

/** Decides when a lost stream is followed by another, from where, and when no way leads on. */
final class Recovery {
  /**
   * A stream that ends sooner counts as a failure, however politely it ends: a server (or a proxy) that
   * ends every stream at once would otherwise be called in a tight loop.
   */
  private static final Duration SHORTEST_GOOD_STREAM = Duration.ofSeconds(1);

  /** A stream of this length has proved that the server is well: the next failure is a new one. */
  private static final Duration HEALTHY_AFTER = Duration.ofSeconds(120);

  /**
   * Spreads those that reconnect without backoff, since a server that goes away sends all its clients at
   * one moment.
   */
  private static final Duration RECONNECT_SPREAD = Duration.ofMillis(200);

  /** However soon the server says. */
  private static final Duration SHORTEST_RETRY_AFTER = Duration.ofMillis(100);

  /** How often the same position is tried on servers that are behind it. */
  private static final int MAX_ATTEMPTS_AHEAD = 5;

  /** How often to start over for a reason that is not known. */
  private static final int MAX_UNEXPLAINED = 5;

  private final Position position;
  private final OnExpired onExpired;
  private final Backoff backoff;

  /** In a row. */
  private int attemptsAhead;

  /** In a row. */
  private int unexplained;

  /** Reconnections without backoff in a row that led to a short stream. */
  private int hasty;

  Recovery(Position position, WatchOptions options) {
    this.position = position;
    this.onExpired = options.onExpired();
    this.backoff = options.newBackoff();
  }

  void responded(Phase phase) {
    attemptsAhead = 0;
    if (phase == Phase.LIVE) {
      unexplained = 0;
    }
  }

  /**
   * How long to wait before the next stream. Moves the position if that is worth nothing any more.
   *
   * @param lived from the stream's first response to its end; empty if there was no response
   * @throws RefusedException if no retry helps
   * @throws ExpiredException if history is gone and the options say to fail
   */
  Duration after(Disconnect lost, Optional<Duration> lived) {
    boolean good = lived.filter(it -> it.compareTo(SHORTEST_GOOD_STREAM) >= 0).isPresent();
    if (lived.filter(it -> it.compareTo(HEALTHY_AFTER) >= 0).isPresent()) {
      backoff.reset();
    }
    if (good) {
      hasty = 0;
    }
    return switch (lost.cause()) {
      case ERROR -> afterError(lost.error().orElseThrow());
      case ENDED -> good ? backoff.jittered(RECONNECT_SPREAD) : backoff.nextDelay();
      case GOING_AWAY -> {
        if (hasty > 0) {
          yield backoff.nextDelay();
        }
        if (!good) {
          hasty++;
        }
        yield backoff.jittered(RECONNECT_SPREAD);
      }
      case RESTARTED -> {
        position.startOver();
        yield backoff.nextDelay();
      }
      case SILENT, NO_RESPONSE, NO_PROGRESS -> backoff.nextDelay();
    };
  }

  private Duration afterError(ListwatchException error) {
    boolean fails = onExpired == OnExpired.FAIL;
    switch (Verdict.of(error)) {
      case REFUSED -> throw new RefusedException(error);
      case RESUME -> {
        return serversDelay(error);
      }
      case AHEAD -> {
        attemptsAhead++;
        if (attemptsAhead >= MAX_ATTEMPTS_AHEAD) {
          if (fails) {
            throw expired(error);
          }
          attemptsAhead = 0;
          position.startOver();
        }
        return serversDelay(error);
      }
      case BAD_TOKEN -> {
        // One that this watcher was given by the server went bad with the server. The caller's own is a
        // mistake that the caller has to hear of.
        if (position.token().isEmpty() || fails) {
          throw new RefusedException(error);
        }
        position.startOver();
      }
      case DATA_LOSS -> position.startOver();
      case START_OVER -> {
        if (fails) {
          throw expired(error);
        }
        if (position.asksForState()) {
          // An initial state cannot expire, unless it was asked for at a revision.
          startOverUnexplained(error);
        } else {
          position.startOver();
        }
      }
      case UNEXPLAINED -> {
        if (fails) {
          throw expired(error);
        }
        startOverUnexplained(error);
      }
    }
    return backoff.nextDelay();
  }

  private void startOverUnexplained(ListwatchException error) {
    unexplained++;
    if (unexplained >= MAX_UNEXPLAINED) {
      throw new RefusedException(error);
    }
    position.startOver();
  }

  /** At least what the server says, and not everyone at the same moment. */
  private Duration serversDelay(ListwatchException error) {
    return error
        .retryAfter()
        .map(it -> it.compareTo(SHORTEST_RETRY_AFTER) < 0 ? SHORTEST_RETRY_AFTER : it)
        .map(it -> it.plus(backoff.jittered(it.dividedBy(10))))
        .orElseGet(backoff::nextDelay);
  }

  private static ExpiredException expired(ListwatchException error) {
    return new ExpiredException(error.failure(), error);
  }
}
