import { create, type MessageInitShape } from "@bufbuild/protobuf";

import { DEFAULT_BACKOFF, type BackoffOptions, type Randomness } from "../backoff.js";
import { duration } from "../duration.js";
import {
  CatchUp,
  ConsistencySchema,
  DeliveryMode,
  SelectorSchema,
  View,
  WatchRequestSchema,
  type WatchRequest,
} from "../gen/listwatch/v1/listwatch_pb.js";

/** Which objects a list or a watch covers: `{ collection: "pods", namespace: "web" }`. */
export type SelectorInit = MessageInitShape<typeof SelectorSchema>;

/** How fresh a read must be: `{ kind: { case: "minRevision", value: 7n } }`. */
export type ConsistencyInit = MessageInitShape<typeof ConsistencySchema>;

/** Where a watcher begins. */
export type Start =
  /** With everything that exists. */
  | "initialState"
  /** With the first change after the server takes the request. */
  | "now"
  /** After the point that a bookmark or a list of the same selector named. */
  | { readonly resumeToken: string }
  /** After this revision. */
  | { readonly afterRevision: bigint };

/** How to watch. All times are in milliseconds. */
export interface WatchOptions {
  /** Where to begin. Default: `"initialState"`. */
  readonly start?: Start;
  /** How much of each object to send. Default: all. */
  readonly view?: View;
  /** Default: every change. */
  readonly deliveryMode?: DeliveryMode;
  /** What to get when the history is compacted. Default: the net difference. */
  readonly catchUp?: CatchUp;
  /** Of the initial state. Default: linearizable. */
  readonly consistency?: ConsistencyInit;
  /** Asks for the state before each change. Default: no. */
  readonly sendPrevious?: boolean;
  /** Lets the server hold events back this long for fewer, larger responses. */
  readonly maxBatchDelay?: number;
  /**
   * The longest silence that the server is asked to keep. After two and a half such intervals of
   * it the watcher opens another stream, so it must be within the server's limits.
   * Default: 10 s.
   */
  readonly bookmarkInterval?: number;
  /** How long the first response of a stream may take. Default: 30 s. */
  readonly firstResponseTimeout?: number;
  /**
   * How long an initial state, or what catches up, may go without an event and without its end.
   * Default: 60 s.
   */
  readonly progressTimeout?: number;
  /** Delays between attempts. Default: {@link DEFAULT_BACKOFF}. */
  readonly backoff?: Partial<BackoffOptions>;
  /** Where the jitter comes from. For tests. Default: `Math.random`. */
  readonly random?: Randomness;
  /**
   * What to do when the history after the position is gone: go on with a new initial state, or
   * end with a {@link WatchEndedError}. Default: `"startOver"`.
   */
  readonly onExpired?: "startOver" | "fail";
  /** Ends the watch: whoever iterates gets the signal's reason thrown. */
  readonly signal?: AbortSignal;
}

/** Options with their defaults, and what they are about. */
export interface Settings {
  readonly selector: SelectorInit;
  readonly view: View;
  readonly deliveryMode: DeliveryMode;
  readonly catchUp: CatchUp;
  readonly sendPrevious: boolean;
  readonly maxBatchDelay: number | undefined;
  readonly bookmarkInterval: number;
  readonly firstResponseTimeout: number;
  readonly progressTimeout: number;
  readonly backoff: BackoffOptions;
  readonly random: Randomness;
  readonly onExpired: "startOver" | "fail";
  /**
   * The start token is a convenience, as one that a copy was saved with: an invalid one is as
   * good as none.
   */
  readonly tokenIsOptional: boolean;
}

/** Fills in the defaults. */
export function settingsOf(
  selector: SelectorInit,
  options: WatchOptions,
  tokenIsOptional: boolean,
): Settings {
  return {
    selector,
    view: options.view ?? View.FULL,
    deliveryMode: options.deliveryMode ?? DeliveryMode.EVERY_CHANGE,
    catchUp: options.catchUp ?? CatchUp.NET,
    sendPrevious: options.sendPrevious ?? false,
    maxBatchDelay: options.maxBatchDelay,
    // With the 2.5 intervals of silence that are put up with, a dead connection is noticed after
    // 25 s.
    bookmarkInterval: options.bookmarkInterval ?? 10_000,
    firstResponseTimeout: options.firstResponseTimeout ?? 30_000,
    progressTimeout: options.progressTimeout ?? 60_000,
    backoff: { ...DEFAULT_BACKOFF, ...options.backoff },
    random: options.random ?? Math.random,
    onExpired: options.onExpired ?? "startOver",
    tokenIsOptional,
  };
}

/** The request of one stream. */
export function watchRequest(
  settings: Settings,
  start: Start,
  consistency: ConsistencyInit | undefined,
): WatchRequest {
  const { selector, view, deliveryMode, catchUp, sendPrevious, maxBatchDelay } = settings;
  return create(WatchRequestSchema, {
    selector,
    start: startOf(start, consistency),
    view,
    deliveryMode,
    catchUp,
    sendPrevious,
    bookmarkInterval: duration(settings.bookmarkInterval),
    ...(maxBatchDelay !== undefined && { maxBatchDelay: duration(maxBatchDelay) }),
  });
}

function startOf(
  start: Start,
  consistency: ConsistencyInit | undefined,
): NonNullable<MessageInitShape<typeof WatchRequestSchema>["start"]> {
  if (start === "initialState") {
    return { case: "initialState", value: consistency === undefined ? {} : { consistency } };
  }
  if (start === "now") {
    return { case: "now", value: true };
  }
  if ("resumeToken" in start) {
    return { case: "resumeToken", value: start.resumeToken };
  }
  return { case: "afterRevision", value: start.afterRevision };
}
