import { protocolError } from "../error.js";
import {
  BookmarkKind,
  EventType,
  type WatchEvent as WireEvent,
  type WatchResponse,
} from "../gen/listwatch/v1/listwatch_pb.js";
import { pointOf, type Point, type WatchEvent } from "./event.js";
import type { Told } from "./told.js";

/**
 * Where a stream is.
 *
 * - `openedForState`, `openedAfter`: the first response is outstanding, of a request for the
 *   initial state or for what follows a position. It says which of the others comes next.
 * - `initial`: between INITIAL_STATE_BEGIN and INITIAL_STATE_END.
 * - `net`: between NET_BEGIN and INITIAL_STATE_END.
 * - `manifest`: between MANIFEST_BEGIN and INITIAL_STATE_END.
 * - `live`: every change as it comes.
 */
export type Phase = "openedForState" | "openedAfter" | "initial" | "net" | "manifest" | "live";

/** Whether the stream has not said its first word. */
export function isOpened(phase: Phase): boolean {
  return phase === "openedForState" || phase === "openedAfter";
}

/** Whether the stream owes an end of what it has begun. */
export function isSyncing(phase: Phase): boolean {
  return phase === "initial" || phase === "net" || phase === "manifest";
}

/** What a response meant. */
export interface Translated {
  /** What the stream is in after it. */
  readonly phase: Phase;
  readonly events: WatchEvent[];
  readonly goingAway: boolean;
}

/**
 * Translates a response that came in `phase`, without the changes that `repeats` says were told.
 *
 * @throws ListwatchError if the response breaks the protocol
 */
export function translate(phase: Phase, response: WatchResponse, repeats: Told): Translated {
  if (isOpened(phase) && response.events.length > 0) {
    throw protocolError("events before the first bookmark");
  }
  const events: WatchEvent[] = [];
  for (const wire of response.events) {
    const event = translateEvent(phase, wire);
    if (event !== undefined && !(phase === "live" && isRepeated(event, repeats))) {
      events.push(event);
    }
  }
  const { bookmark } = response;
  if (bookmark === undefined) {
    return { phase, events, goingAway: false };
  }
  const taken = takeBookmark(phase, bookmark.kind, pointOf(bookmark));
  if (taken.event !== undefined) {
    events.push(taken.event);
  }
  const goingAway = bookmark.kind === BookmarkKind.GOING_AWAY;
  return { phase: taken.phase, events, goingAway };
}

function isRepeated(event: WatchEvent, repeats: Told): boolean {
  return (event.type === "apply" || event.type === "delete") && repeats.includes(event.object);
}

function takeBookmark(
  phase: Phase,
  kind: BookmarkKind,
  point: Point,
): { phase: Phase; event?: WatchEvent } {
  switch (kind) {
    case BookmarkKind.INITIAL_STATE_BEGIN:
      return { phase: "initial", event: { type: "initBegin" } };
    case BookmarkKind.NET_BEGIN:
      return { phase: "net", event: { type: "netBegin" } };
    case BookmarkKind.MANIFEST_BEGIN:
      return { phase: "manifest", event: { type: "manifestBegin" } };
  }
  switch (phase) {
    case "openedForState":
    case "openedAfter":
      if (kind === BookmarkKind.GOING_AWAY) {
        // Not even its first word: the position stays what it was.
        return { phase };
      }
      if (phase === "openedForState") {
        throw protocolError("an initial state without its beginning");
      }
      if (kind === BookmarkKind.INITIAL_STATE_END) {
        throw protocolError("the end of what never began");
      }
      return { phase: "live", event: { type: "resumed", point } };
    case "initial":
    case "net":
    case "manifest":
      if (kind === BookmarkKind.INITIAL_STATE_END) {
        const type = phase === "initial" ? "initDone" : "caughtUp";
        return { phase: "live", event: { type, point } };
      }
      // A sign of life. Its token would skip what is still owed, or, in a net difference, name a
      // point at which no consistent copy exists.
      return { phase };
    case "live":
      if (kind === BookmarkKind.INITIAL_STATE_END) {
        throw protocolError("the end of what never began");
      }
      return { phase, event: { type: "bookmark", point } };
  }
}

function translateEvent(phase: Phase, wire: WireEvent): WatchEvent | undefined {
  const { type, resource: object, previous, deleteCause: cause } = wire;
  if (object?.key === undefined) {
    // Of a newer server: nothing that this client could act on.
    return undefined;
  }
  if (type === EventType.DELETED) {
    return { type: "delete", object, previous, cause };
  }
  if (type === EventType.UNCHANGED) {
    return { type: "unchanged", object };
  }
  if (phase === "initial") {
    return { type: "initApply", object };
  }
  switch (type) {
    case EventType.ADDED:
      return { type: "apply", object, previous, change: "added" };
    case EventType.UPSERTED:
    case EventType.EXISTING:
      return { type: "apply", object, previous, change: "upserted" };
    default:
      // The API says what a type means that this client does not know.
      return { type: "apply", object, previous, change: "modified" };
  }
}
