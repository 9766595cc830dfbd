package dev.listwatch.client;

import dev.listwatch.v1.DeleteCause;
import dev.listwatch.v1.Resource;
import java.time.Duration;
import java.util.Optional;

/**
 * One step of a {@link Watcher}.
 *
 * <p>A copy kept by these rules equals the server's state at every {@link AtPoint}:
 *
 * <ul>
 *   <li>Between {@link InitBegin} and {@link InitDone}, and between {@link NetBegin} or {@link
 *       ManifestBegin} and {@link CaughtUp}, work on a second copy, and swap it in at the end. If
 *       {@link Disconnected} or another begin comes first, throw it away.
 *   <li>Everything else applies to the copy itself, in order.
 * </ul>
 */
public sealed interface Event {
  /** An event that is a place from which a watch can go on. */
  sealed interface AtPoint extends Event {
    /**
     * The place.
     *
     * @return where the watch is now
     */
    Point point();
  }

  /**
   * Everything that exists follows as {@link InitApply}, and what you hold may be out of date. Go on
   * serving it until {@link InitDone}.
   */
  record InitBegin() implements Event {}

  /**
   * Part of the initial state.
   *
   * @param object as much of it as the view shows
   */
  record InitApply(Resource object) implements Event {}

  /**
   * What came since {@link InitBegin} is all there is at this point. What you held and was not named is
   * gone.
   *
   * @param point as of when this was so
   */
  record InitDone(Point point) implements AtPoint {}

  /**
   * A stream goes on where the last one stopped: what you hold was right at this point, and every change
   * since follows.
   *
   * @param point where it goes on; its {@code latestRevision} says how far the store is ahead
   */
  record Resumed(Point point) implements AtPoint {}

  /**
   * The net difference since your last point follows: one {@link Apply} or {@link Delete} for each key
   * that changed, up to {@link CaughtUp}. Revisions are torn in between.
   */
  record NetBegin() implements Event {}

  /**
   * The deletions since your last point are forgotten: what changed follows as {@link Apply} and what did
   * not as {@link Unchanged}. At {@link CaughtUp}, what was not named is gone.
   */
  record ManifestBegin() implements Event {}

  /**
   * The net difference or the manifest is complete.
   *
   * @param point as of when this is so
   */
  record CaughtUp(Point point) implements AtPoint {}

  /**
   * The object exists and is in this state.
   *
   * @param object after the change
   * @param previous before it, if that was asked for and is still known
   * @param change what the server says about how it came about
   */
  record Apply(Resource object, Optional<Resource> previous, Change change) implements Event {}

  /**
   * The object is gone, or no longer matches the selector. It may be one that you never held.
   *
   * @param object its last state under the view, with the revision of the deletion
   * @param previous the state before, if that was asked for and is still known
   * @param cause why
   */
  record Delete(Resource object, Optional<Resource> previous, DeleteCause cause) implements Event {}

  /**
   * Of a manifest: the object is there and is as it was at your last point.
   *
   * @param object key, uid and revision only
   */
  record Unchanged(Resource object) implements Event {}

  /**
   * Everything up to this point has been told.
   *
   * @param point where the watch is now
   */
  record Bookmark(Point point) implements AtPoint {}

  /**
   * The stream is lost; another is opened by itself. What you hold grows stale.
   *
   * @param reason why
   * @param retryIn how long after this the next stream is opened
   */
  record Disconnected(Disconnect reason, Duration retryIn) implements Event {}

  /** How an object came to be as {@link Apply} says. */
  enum Change {
    /** It was created, or matches the selector from now on. */
    ADDED,
    /** It was there before. */
    MODIFIED,
    /**
     * Only your own copy can tell. Another uid under a key that you hold means that the old object was
     * deleted first.
     */
    UPSERTED
  }
}
