import type { Bookmark, DeleteCause, Resource } from "../gen/listwatch/v1/listwatch_pb.js";
import { ListwatchError } from "../error.js";

/**
 * One step of a {@link Watcher}.
 *
 * A copy kept by these rules equals the server's state at every {@link Point}:
 *
 * - Between `initBegin` and `initDone`, and between `netBegin` or `manifestBegin` and `caughtUp`,
 *   work on a second copy, and swap it in at the end. If `disconnected` or another begin comes
 *   first, throw it away.
 * - Everything else applies to the copy itself, in order.
 */
export type WatchEvent =
  | InitBegin
  | InitApply
  | InitDone
  | Resumed
  | NetBegin
  | ManifestBegin
  | CaughtUp
  | Apply
  | Delete
  | Unchanged
  | Progress
  | Disconnected;

/**
 * Everything that exists follows as `initApply`, and what you hold may be out of date. Go on
 * serving it until `initDone`.
 */
export interface InitBegin {
  readonly type: "initBegin";
}

/** Part of the initial state. */
export interface InitApply {
  readonly type: "initApply";
  readonly object: Resource;
}

/**
 * What came since `initBegin` is all there is at this point. What you held and was not named is
 * gone.
 */
export interface InitDone {
  readonly type: "initDone";
  readonly point: Point;
}

/**
 * A stream goes on where the last one stopped: what you hold was right at this point, and every
 * change since follows. `point.latestRevision` says how far the store is ahead.
 */
export interface Resumed {
  readonly type: "resumed";
  readonly point: Point;
}

/**
 * The net difference since your last point follows: one `apply` or `delete` for each key that
 * changed, up to `caughtUp`. Revisions are torn in between.
 */
export interface NetBegin {
  readonly type: "netBegin";
}

/**
 * The deletions since your last point are forgotten: what changed follows as `apply` and what did
 * not as `unchanged`. At `caughtUp`, what was not named is gone.
 */
export interface ManifestBegin {
  readonly type: "manifestBegin";
}

/** The net difference or the manifest is complete. */
export interface CaughtUp {
  readonly type: "caughtUp";
  readonly point: Point;
}

/** The object exists and is in this state. */
export interface Apply {
  readonly type: "apply";
  /** The state after the change. */
  readonly object: Resource;
  /** The state before it, if asked for and still known. */
  readonly previous: Resource | undefined;
  /** What the server says about how it came about. */
  readonly change: Change;
}

/**
 * The object is gone, or no longer matches the selector. It may be one that you never held.
 */
export interface Delete {
  readonly type: "delete";
  /** Its last state under the view, with the revision of the deletion. */
  readonly object: Resource;
  /** The state before, if asked for and still known. */
  readonly previous: Resource | undefined;
  /** Why. */
  readonly cause: DeleteCause;
}

/**
 * Of a manifest: the object is there and is as it was at your last point. Key, uid and revision
 * only.
 */
export interface Unchanged {
  readonly type: "unchanged";
  readonly object: Resource;
}

/** Everything up to this point has been told. */
export interface Progress {
  readonly type: "bookmark";
  readonly point: Point;
}

/** The stream is lost; another will be opened by itself. What you hold grows stale. */
export interface Disconnected {
  readonly type: "disconnected";
  readonly cause: Disconnect;
  /** In how many milliseconds the next stream will be opened. */
  readonly retryIn: number;
}

/**
 * How an object came to be as `apply` says. `added`: it was created, or matches the selector from
 * now on. `modified`: it was there before. `upserted`: only your own copy can tell; another uid
 * under a key that you hold means that the old object was deleted first.
 */
export type Change = "added" | "modified" | "upserted";

/** A place in the history from which a watch can go on. */
export interface Point {
  /** Everything up to this revision has been told. */
  readonly revision: bigint;
  /** Starts a watch of the same selector here. Opaque; may be kept for later. */
  readonly resumeToken: string;
  /** The store's newest revision when this was sent. */
  readonly latestRevision: bigint;
  /** How many changes `DeliveryMode.LATEST` left out since the last point. */
  readonly coalesced: bigint;
}

/** A bookmark as a point. */
export function pointOf(bookmark: Bookmark): Point {
  return {
    revision: bookmark.revision,
    resumeToken: bookmark.resumeToken,
    latestRevision: bookmark.latestRevision,
    coalesced: bookmark.coalescedCount,
  };
}

/** Why a stream was lost. Times are in milliseconds. */
export type Disconnect =
  /** The server ended it with OK. */
  | { readonly kind: "ended" }
  /** The server said that it is going away. */
  | { readonly kind: "goingAway" }
  /**
   * Nothing came for two and a half bookmark intervals: the connection is dead, whatever the
   * operating system says.
   */
  | { readonly kind: "silent"; readonly after: number }
  /** The first response did not come in time. */
  | { readonly kind: "noResponse"; readonly after: number }
  /** The initial state (or what catches up) made no progress and did not end. */
  | { readonly kind: "noProgress"; readonly after: number }
  /** {@link Watcher.restart} was called. */
  | { readonly kind: "restarted" }
  /** An error that goes away by itself, or with a new initial state. */
  | { readonly kind: "error"; readonly error: ListwatchError };

/**
 * Why a watcher ended: it has all that the server's error had.
 *
 * `refused`: the server refuses the watch as it stands (credentials, arguments, limits): a retry
 * does not help. `expired`: the history after the start is gone and the options say
 * `onExpired: "fail"`; start with the initial state.
 */
export class WatchEndedError extends ListwatchError {
  override readonly name = "WatchEndedError";
  readonly outcome: "refused" | "expired";

  constructor(outcome: "refused" | "expired", error: ListwatchError) {
    super({
      code: error.code,
      message: error.message,
      reason: error.reason,
      metadata: error.metadata,
      retryAfter: error.retryAfter,
      cause: error,
    });
    this.outcome = outcome;
  }
}
