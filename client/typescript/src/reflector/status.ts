import type { WatchEndedError, Disconnect } from "../watcher/event.js";

/**
 * The state of the stream behind a reflector.
 *
 * - `connecting`: no stream has said anything yet.
 * - `syncing`: an initial state, a net difference or a manifest is being received.
 * - `live`: changes come as they happen.
 * - `disconnected`: the stream is lost, and the next one has its time.
 * - `stopped`: the reflector was closed, or (with an error) the server refuses the watch. What it
 *   held can still be read.
 */
export type Connection =
  | { readonly state: "connecting" }
  | { readonly state: "syncing" }
  | { readonly state: "live" }
  | { readonly state: "disconnected"; readonly cause: Disconnect; readonly retryAt: Date }
  | { readonly state: "stopped"; readonly error: WatchEndedError | Error | undefined };

/** How a reflector is doing, at one moment. */
export interface ReflectorStatus {
  readonly connection: Connection;
  /**
   * Whether the reflector has ever been in step with the server since it was made. What it was
   * restored with does not count.
   */
  readonly ready: boolean;
  /**
   * Since when the snapshot may miss changes that the server has made; `undefined` while the
   * reflector is in step.
   */
  readonly staleSince: Date | undefined;
  /** The revision that the snapshot shows. */
  readonly revision: bigint;
  /** The newest revision that the server spoke of. */
  readonly latestRevision: bigint;
  /** How many initial states were received to their end. One, unless history expired. */
  readonly initialStates: number;
}

/**
 * Why waiting for a reflector was in vain: the time is over. The reflector goes on, and a retry
 * may succeed; `status` says what it was waiting for.
 */
export class WaitTimeoutError extends Error {
  override readonly name = "WaitTimeoutError";
  readonly status: ReflectorStatus;

  constructor(timeout: number, status: ReflectorStatus) {
    super(`not within ${timeout} ms; the stream is ${status.connection.state}`);
    this.status = status;
  }
}

/** Why waiting for a reflector was in vain: it has been closed. */
export class ReflectorClosedError extends Error {
  override readonly name = "ReflectorClosedError";

  constructor() {
    super("the reflector has been closed");
  }
}
