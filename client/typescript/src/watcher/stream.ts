import { toListwatchError } from "../error.js";
import type { WatchResponse } from "../gen/listwatch/v1/listwatch_pb.js";
import { startTimer } from "../sleep.js";
import type { Disconnect } from "./event.js";
import { isOpened, isSyncing, type Phase } from "./phase.js";
import type { Told } from "./told.js";

/** Opens a stream of responses that ends when the signal is aborted. */
export type OpenStream = (signal: AbortSignal) => AsyncIterable<WatchResponse>;

/** How long, in milliseconds, to wait for what. */
export interface Patience {
  readonly firstResponse: number;
  readonly silence: number;
  readonly progress: number;
}

/** What reading came to. */
export type Read =
  | { readonly kind: "response"; readonly response: WatchResponse }
  | { readonly kind: "lost"; readonly cause: Disconnect }
  | { readonly kind: "cancelled" };

/**
 * A thread that was busy finds its timer due before it has looked at what the socket holds: that
 * is given so many milliseconds.
 */
const LAST_LOOK = 20;

/**
 * One call of Watch, from its request to its loss.
 *
 * Nothing is read that was not asked for, so that the transport's flow control reaches the
 * server. Time counts as silence only while a read is waiting: who reads late has not been left
 * in silence.
 */
export class Stream {
  phase: Phase;
  /** What streams before this one told after the point at which this one starts. */
  readonly repeats: Told;
  readonly #patience: Patience;
  readonly #cancelled = new AbortController();
  readonly #responses: AsyncIterator<WatchResponse>;
  /** When the first response came. */
  #since: number | undefined;
  /** For how long reads have waited since the last response. */
  #quiet = 0;
  /** For how long reads have waited since the last event, or since the last begin. */
  #stalled = 0;

  constructor(open: OpenStream, phase: Phase, repeats: Told, patience: Patience) {
    this.phase = phase;
    this.repeats = repeats;
    this.#patience = patience;
    this.#responses = open(this.#cancelled.signal)[Symbol.asyncIterator]();
  }

  /** How many milliseconds ago the first response came, if one did. */
  lived(): number | undefined {
    return this.#since === undefined ? undefined : performance.now() - this.#since;
  }

  /** The next response, or why there is none. One at a time; not again after a loss. */
  async read(): Promise<Read> {
    const asked = performance.now();
    const read = await this.#pullWithin(this.#limit());
    const waited = performance.now() - asked;
    this.#stalled += waited;
    this.#quiet += waited;
    if (read.kind === "response") {
      this.#since ??= performance.now();
      this.#quiet = 0;
    }
    return read;
  }

  /** What is being synchronised goes on. */
  progressed(): void {
    this.#stalled = 0;
  }

  /** Cancels the call, unless it has ended. */
  cancel(): void {
    this.#cancelled.abort();
  }

  #limit(): { left: number; cause: Disconnect } {
    const { firstResponse, silence, progress } = this.#patience;
    const silent: Disconnect = isOpened(this.phase)
      ? { kind: "noResponse", after: firstResponse }
      : { kind: "silent", after: silence };
    const quiet = { left: silent.after - this.#quiet, cause: silent };
    const stalled = progress - this.#stalled;
    if (isSyncing(this.phase) && stalled < quiet.left) {
      return { left: stalled, cause: { kind: "noProgress", after: progress } };
    }
    return quiet;
  }

  #pullWithin(limit: { left: number; cause: Disconnect }): Promise<Read> {
    const { signal } = this.#cancelled;
    return new Promise((resolve) => {
      const end = (read: Read) => {
        clearTimeout(timer);
        signal.removeEventListener("abort", cancel);
        resolve(read);
      };
      const cancel = () => end({ kind: "cancelled" });
      let timer = startTimer(limit.left, () => {
        timer = startTimer(LAST_LOOK, () => end({ kind: "lost", cause: limit.cause }));
      });
      signal.addEventListener("abort", cancel);
      this.#pull().then(end, cancel);
    });
  }

  async #pull(): Promise<Read> {
    try {
      const result = await this.#responses.next();
      return result.done === true
        ? { kind: "lost", cause: { kind: "ended" } }
        : { kind: "response", response: result.value };
    } catch (rejection) {
      return { kind: "lost", cause: { kind: "error", error: toListwatchError(rejection) } };
    }
  }
}
