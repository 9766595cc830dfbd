package dev.listwatch.client;

import dev.listwatch.v1.WatchRequest;
import dev.listwatch.v1.Selector;
import java.util.Optional;

/** Where a watch is: from where its next stream goes on, and what need not be told again then. */
final class Position {
  private final Selector selector;
  private final WatchOptions options;

  /** Where the next stream starts while there is no token. */
  private Start start;

  private boolean startedOver;

  /** That of the last point whose events have all been given out. */
  private Optional<ResumeToken> token = Optional.empty();

  private Told told = new Told();

  /**
   * Whether what is given out belongs to an initial state or catches up: that is told again as a whole
   * after a disconnection, and {@code told} does not concern it.
   */
  private boolean syncing;

  Position(Selector selector, WatchOptions options) {
    this.selector = selector;
    this.options = options;
    this.start = options.start();
  }

  Optional<ResumeToken> token() {
    return token;
  }

  /** Takes an event that is being given out: not before, since who stops reading has not seen it. */
  void pass(Event event) {
    if (event instanceof Event.AtPoint at) {
      if (!at.point().resumeToken().isEmpty()) {
        token = Optional.of(at.point().resumeToken());
      }
      told.clear();
      syncing = false;
    } else if (event instanceof Event.InitBegin
        || event instanceof Event.NetBegin
        || event instanceof Event.ManifestBegin) {
      syncing = true;
    } else if (event instanceof Event.Disconnected) {
      syncing = false;
    } else if (event instanceof Event.Apply apply && !syncing) {
      told.record(apply.object());
    } else if (event instanceof Event.Delete delete && !syncing) {
      told.record(delete.object());
    }
  }

  WatchRequest request() {
    Start from = token.<Start>map(Start.After::new).orElse(start);
    return options.request(selector, from, !startedOver);
  }

  /** What the stream that is opened here must not tell again; it is the stream's from now on. */
  Translation newTranslation() {
    Translation translation = new Translation(asksForState(), told);
    told = new Told();
    return translation;
  }

  void takeBack(Told repeats) {
    told.absorb(repeats);
  }

  boolean asksForState() {
    return token.isEmpty() && start instanceof Start.InitialState;
  }

  void startOver() {
    token = Optional.empty();
    start = new Start.InitialState();
    startedOver = true;
    told.clear();
  }
}
