package dev.listwatch.client;

import dev.listwatch.v1.CatchUp;
import dev.listwatch.v1.Consistency;
import dev.listwatch.v1.DeliveryMode;
import dev.listwatch.v1.InitialState;
import dev.listwatch.v1.Selector;
import dev.listwatch.v1.View;
import dev.listwatch.v1.WatchRequest;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.DoubleSupplier;

/**
 * How to watch, and how patiently. Immutable: each {@code with…} gives a changed copy of {@link
 * #DEFAULT}, or of another.
 */
public final class WatchOptions {
  /** The initial state and then every change, with the patience that fits most programs. */
  public static final WatchOptions DEFAULT = new WatchOptions(new Values());

  /** What a watcher does when the history after its position is gone. */
  public enum OnExpired {
    /** Goes on with a new initial state. */
    START_OVER,
    /** Ends with an {@link ExpiredException}. */
    FAIL
  }

  /** Changed only by the {@code with…} that made the copy, before anyone else sees it. */
  private static final class Values {
    Start start = new Start.InitialState();
    View view = View.VIEW_FULL;
    DeliveryMode deliveryMode = DeliveryMode.DELIVERY_MODE_EVERY_CHANGE;
    CatchUp catchUp = CatchUp.CATCH_UP_NET;
    Optional<Consistency> consistency = Optional.empty();
    boolean sendPrevious;
    Duration maxBatchDelay = Duration.ZERO;
    Duration bookmarkInterval = Duration.ofSeconds(10);
    Duration firstResponseTimeout = Duration.ofSeconds(30);
    Duration progressTimeout = Duration.ofSeconds(60);
    OnExpired onExpired = OnExpired.START_OVER;
    BackoffBounds backoff = BackoffBounds.DEFAULT;
    DoubleSupplier randomness = () -> ThreadLocalRandom.current().nextDouble();
  }

  private final Values values;

  private WatchOptions(Values values) {
    this.values = values;
  }

  private interface Setting {
    void change(Values values);
  }

  private WatchOptions with(Setting setting) {
    Values copy = new Values();
    copy.start = values.start;
    copy.view = values.view;
    copy.deliveryMode = values.deliveryMode;
    copy.catchUp = values.catchUp;
    copy.consistency = values.consistency;
    copy.sendPrevious = values.sendPrevious;
    copy.maxBatchDelay = values.maxBatchDelay;
    copy.bookmarkInterval = values.bookmarkInterval;
    copy.firstResponseTimeout = values.firstResponseTimeout;
    copy.progressTimeout = values.progressTimeout;
    copy.onExpired = values.onExpired;
    copy.backoff = values.backoff;
    copy.randomness = values.randomness;
    setting.change(copy);
    return new WatchOptions(copy);
  }

  /**
   * Where to begin. Default: with the initial state.
   *
   * @param start where
   * @return changed options
   */
  public WatchOptions withStart(Start start) {
    Objects.requireNonNull(start);
    return with(it -> it.start = start);
  }

  /**
   * How much of each object to send. Default: all.
   *
   * @param view how much
   * @return changed options
   */
  public WatchOptions withView(View view) {
    Objects.requireNonNull(view);
    return with(it -> it.view = view);
  }

  /**
   * What a client that is behind gets. Default: every change.
   *
   * @param mode which
   * @return changed options
   */
  public WatchOptions withDeliveryMode(DeliveryMode mode) {
    Objects.requireNonNull(mode);
    return with(it -> it.deliveryMode = mode);
  }

  /**
   * What to get when the history is compacted. Default: the net difference.
   *
   * @param catchUp which
   * @return changed options
   */
  public WatchOptions withCatchUp(CatchUp catchUp) {
    Objects.requireNonNull(catchUp);
    return with(it -> it.catchUp = catchUp);
  }

  /**
   * Of the first initial state. Default: linearizable.
   *
   * @param consistency which
   * @return changed options
   */
  public WatchOptions withConsistency(Consistency consistency) {
    return with(it -> it.consistency = Optional.of(consistency));
  }

  /**
   * Whether to ask for the state before each change. Default: no.
   *
   * @param send whether
   * @return changed options
   */
  public WatchOptions withPrevious(boolean send) {
    return with(it -> it.sendPrevious = send);
  }

  /**
   * Lets the server hold events back this long for fewer, larger responses. Default: not at all.
   *
   * @param delay the longest
   * @return changed options
   */
  public WatchOptions withMaxBatchDelay(Duration delay) {
    return with(it -> it.maxBatchDelay = checked(delay));
  }

  /**
   * The longest silence that the server is asked to keep. After two and a half such intervals of it the
   * watcher opens another stream, so it must be within the server's limits. Default: 10 s.
   *
   * @param interval how long
   * @return changed options
   */
  public WatchOptions withBookmarkInterval(Duration interval) {
    return with(it -> it.bookmarkInterval = checked(interval));
  }

  /**
   * How long the first response of a stream may take. Default: 30 s.
   *
   * @param timeout how long
   * @return changed options
   */
  public WatchOptions withFirstResponseTimeout(Duration timeout) {
    return with(it -> it.firstResponseTimeout = checked(timeout));
  }

  /**
   * How long an initial state, or what catches up, may go without an event and without its end. Default:
   * 60 s.
   *
   * @param timeout how long
   * @return changed options
   */
  public WatchOptions withProgressTimeout(Duration timeout) {
    return with(it -> it.progressTimeout = checked(timeout));
  }

  /**
   * What to do when history is gone. Default: start over.
   *
   * @param onExpired what
   * @return changed options
   */
  public WatchOptions withOnExpired(OnExpired onExpired) {
    Objects.requireNonNull(onExpired);
    return with(it -> it.onExpired = onExpired);
  }

  /**
   * The delays between attempts. Default: 800 ms, doubled up to 30 s, with full jitter.
   *
   * @param bounds of the delays
   * @return changed options
   */
  public WatchOptions withBackoff(BackoffBounds bounds) {
    Objects.requireNonNull(bounds);
    return with(it -> it.backoff = bounds);
  }

  /**
   * Where the jitter comes from. For tests.
   *
   * @param randomness gives numbers from 0 to 1; called by one thread at a time
   * @return changed options
   */
  public WatchOptions withRandomness(DoubleSupplier randomness) {
    Objects.requireNonNull(randomness);
    return with(it -> it.randomness = randomness);
  }

  private static Duration checked(Duration duration) {
    if (duration.isNegative()) {
      throw new IllegalArgumentException("a negative duration: " + duration);
    }
    return duration;
  }

  Start start() {
    return values.start;
  }

  OnExpired onExpired() {
    return values.onExpired;
  }

  Duration firstResponseTimeout() {
    return values.firstResponseTimeout;
  }

  Duration progressTimeout() {
    return values.progressTimeout;
  }

  /** The silence that is put up with. */
  Duration silenceLimit() {
    return values.bookmarkInterval.multipliedBy(5).dividedBy(2);
  }

  Backoff newBackoff() {
    return new Backoff(values.backoff, values.randomness);
  }

  /**
   * @param firstTime whether what was asked for at the start still holds; a revision is of the past later
   */
  WatchRequest request(Selector selector, Start from, boolean firstTime) {
    WatchRequest.Builder request =
        WatchRequest.newBuilder()
            .setSelector(selector)
            .setView(values.view)
            .setDeliveryMode(values.deliveryMode)
            .setCatchUp(values.catchUp)
            .setSendPrevious(values.sendPrevious)
            .setBookmarkInterval(message(values.bookmarkInterval));
    if (!values.maxBatchDelay.isZero()) {
      request.setMaxBatchDelay(message(values.maxBatchDelay));
    }
    if (from instanceof Start.After after) {
      request.setResumeToken(after.token().text());
    } else if (from instanceof Start.AfterRevision after) {
      request.setAfterRevision(after.revision());
    } else if (from instanceof Start.Now) {
      request.setNow(true);
    } else {
      InitialState.Builder state = InitialState.newBuilder();
      if (firstTime) {
        values.consistency.ifPresent(state::setConsistency);
      }
      request.setInitialState(state);
    }
    return request.build();
  }

  private static com.google.protobuf.Duration message(Duration duration) {
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(duration.getSeconds())
        .setNanos(duration.getNano())
        .build();
  }
}
