import { asyncDispose } from "../async-dispose.js";
import { Backoff } from "../backoff.js";
import { ListwatchError, toListwatchError } from "../error.js";
import type { WatchRequest, WatchResponse } from "../gen/listwatch/v1/listwatch_pb.js";
import { sleep } from "../sleep.js";
import { WatchEndedError, type Disconnect, type WatchEvent } from "./event.js";
import { watchRequest, type ConsistencyInit, type Settings, type Start } from "./options.js";
import { isSyncing, translate } from "./phase.js";
import { Stream } from "./stream.js";
import { Told } from "./told.js";
import { verdict } from "./verdict.js";

/**
 * A stream that ends sooner counts as a failure, however politely it ends: a server (or a proxy)
 * that ends every stream at once would otherwise be called in a tight loop. In milliseconds, as
 * all that follow.
 */
const SHORTEST_GOOD_STREAM = 1000;
/** A stream of this length has proved that the server is well: the next failure is a new one. */
const HEALTHY_AFTER = 120_000;
/**
 * Spreads those that reconnect without backoff, since a server that goes away sends all its
 * clients at one moment.
 */
const RECONNECT_SPREAD = 200;
/** However soon the server says. */
const SHORTEST_RETRY_AFTER = 100;
/**
 * How often the same position is tried on servers that are behind it (a lagging replica catches
 * up within the minute that this takes) before it is given up.
 */
const MAX_ATTEMPTS_AHEAD = 5;
/** How often to start over for a reason that is not known. */
const MAX_UNEXPLAINED = 5;

/** Calls Watch. */
export type CallWatch = (
  request: WatchRequest,
  signal: AbortSignal,
) => AsyncIterable<WatchResponse>;

/**
 * - `disconnected`: no stream, and no reason to wait. Entered at first and after `waiting`; left
 *   by the next read.
 * - `streaming`: responses come, or are awaited. Left by any {@link Disconnect}.
 * - `waiting`: the next attempt has its time. Left when it comes.
 * - `ended`: closed, or an error was thrown that no retry cures. Never left.
 */
type State =
  | { readonly at: "disconnected" }
  | { readonly at: "streaming"; readonly stream: Stream }
  | { readonly at: "waiting"; readonly until: number }
  | { readonly at: "ended" };

/**
 * A stream of {@link WatchEvent}s that does not end by itself, except with a
 * {@link WatchEndedError}: it reconnects, resumes, starts over. Made by {@link Client.watch};
 * iterated with `for await`, of which `break` and `return` close it.
 *
 * It does nothing while no one asks for an event: no stream is opened, nothing is read, no time
 * runs out.
 */
export class Watcher implements AsyncIterableIterator<WatchEvent>, AsyncDisposable {
  readonly #call: CallWatch;
  readonly #settings: Settings;
  readonly #signal: AbortSignal | undefined;
  readonly #backoff: Backoff;
  readonly #closing = new AbortController();
  /** Where the next stream starts while there is no position. */
  #nextStart: Start;
  #consistency: ConsistencyInit | undefined;
  /** The last point whose events have all been given out. */
  #position: string | undefined;
  /** What has been given out since. */
  readonly #told = new Told();
  /**
   * Whether what is given out belongs to an initial state or catches up: that is told again as a
   * whole after a disconnection, and `#told` does not concern it.
   */
  #syncing = false;
  /** The events of the last response, of which those before `#given` have been given out. */
  #ready: WatchEvent[] = [];
  #given = 0;
  /** In a row. */
  #attemptsAhead = 0;
  /** In a row. */
  #unexplained = 0;
  /** Reconnections without backoff in a row that led to a short stream. */
  #hasty = 0;
  #state: State = { at: "disconnected" };
  /** The last call of `next`: one is answered after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  /** Use {@link Client.watch}. */
  constructor(
    call: CallWatch,
    settings: Settings,
    start: Start,
    consistency: ConsistencyInit | undefined,
    signal: AbortSignal | undefined,
  ) {
    this.#call = call;
    this.#settings = settings;
    this.#nextStart = start;
    this.#consistency = consistency;
    this.#signal = signal;
    this.#backoff = new Backoff(settings.backoff, settings.random);
    signal?.addEventListener("abort", this.#abort, { once: true });
  }

  /**
   * The last point whose events have all been given out: where to go on after a restart of the
   * program. `undefined` before the first.
   */
  get resumeToken(): string | undefined {
    return this.#position;
  }

  /**
   * Whether every event of the last response has been given out. Events of one response belong
   * together: publish a copy here, not between them.
   */
  get responseIsDone(): boolean {
    return this.#given === this.#ready.length;
  }

  /**
   * The next event.
   *
   * @throws WatchEndedError when the server refuses the watch, or, with `onExpired: "fail"`, has
   * lost its history
   * @throws the reason of the signal that the watch was given, when it is aborted
   */
  next(): Promise<IteratorResult<WatchEvent, undefined>> {
    const result = this.#turn.then(() => this.#advance());
    this.#turn = result.catch(() => {});
    return result;
  }

  /** Closes the watch. */
  return(): Promise<IteratorResult<WatchEvent, undefined>> {
    this.close();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Ends the watch and cancels its stream. Whoever waits for an event learns that it is over. */
  close(): void {
    if (this.#state.at === "streaming") {
      this.#state.stream.cancel();
    }
    this.#end();
  }

  /**
   * Forgets the position and goes on with a new initial state, after backoff. For when the copy
   * has turned out not to be what the server takes it for. Call it between two events.
   */
  restart(): void {
    if (this.#state.at === "ended") {
      return;
    }
    if (this.#state.at === "streaming") {
      this.#state.stream.cancel();
    }
    this.#take([]);
    this.#startOver();
    this.#wait({ kind: "restarted" }, this.#backoff.next());
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [asyncDispose](): Promise<void> {
    this.close();
  }

  readonly #abort = (): void => this.close();

  #end(): void {
    this.#state = { at: "ended" };
    this.#take([]);
    this.#signal?.removeEventListener("abort", this.#abort);
    this.#closing.abort();
  }

  async #advance(): Promise<IteratorResult<WatchEvent, undefined>> {
    this.#signal?.throwIfAborted();
    for (;;) {
      const event = this.#nextReady();
      if (event !== undefined) {
        return { done: false, value: event };
      }
      switch (this.#state.at) {
        case "ended":
          return { done: true, value: undefined };
        case "disconnected":
          this.#open();
          break;
        case "waiting":
          await this.#waitUntil(this.#state.until);
          break;
        case "streaming":
          await this.#read(this.#state.stream);
          break;
      }
      this.#signal?.throwIfAborted();
    }
  }

  async #waitUntil(until: number): Promise<void> {
    const left = until - performance.now();
    try {
      await sleep(Math.max(left, 0), this.#closing.signal);
    } catch {
      // Closed meanwhile.
      return;
    }
    if (this.#state.at === "waiting" && this.#state.until === until) {
      this.#state = { at: "disconnected" };
    }
  }

  #open(): void {
    const start: Start =
      this.#position === undefined ? this.#nextStart : { resumeToken: this.#position };
    const request = watchRequest(this.#settings, start, this.#consistency);
    const { bookmarkInterval, firstResponseTimeout, progressTimeout } = this.#settings;
    const repeats = new Told();
    repeats.absorb(this.#told);
    this.#told.clear();
    const phase = start === "initialState" ? "openedForState" : "openedAfter";
    const open = (signal: AbortSignal) => this.#call(request, signal);
    const stream = new Stream(open, phase, repeats, {
      firstResponse: firstResponseTimeout,
      silence: bookmarkInterval * 2.5,
      progress: progressTimeout,
    });
    this.#state = { at: "streaming", stream };
  }

  async #read(stream: Stream): Promise<void> {
    const read = await stream.read();
    if (this.#state.at !== "streaming" || this.#state.stream !== stream) {
      // Closed or restarted meanwhile.
      return;
    }
    if (read.kind === "cancelled") {
      return;
    }
    const lost = read.kind === "lost" ? read.cause : this.#takeResponse(stream, read.response);
    if (lost === undefined) {
      return;
    }
    // The old stream goes before a new one comes: two would count twice against the server's
    // limits.
    stream.cancel();
    this.#told.absorb(stream.repeats);
    try {
      this.#lose(lost, stream.lived());
    } catch (ended) {
      this.#end();
      throw ended;
    }
  }

  #takeResponse(stream: Stream, response: WatchResponse): Disconnect | undefined {
    this.#attemptsAhead = 0;
    const wasSyncing = isSyncing(stream.phase);
    let translated;
    try {
      translated = translate(stream.phase, response, stream.repeats);
    } catch (breach) {
      return { kind: "error", error: toListwatchError(breach) };
    }
    stream.phase = translated.phase;
    if (response.events.length > 0 || (isSyncing(stream.phase) && !wasSyncing)) {
      stream.progressed();
    }
    if (stream.phase === "live") {
      this.#unexplained = 0;
    }
    if (translated.events.some(isPointBeyondTheStart)) {
      stream.repeats.clear();
    }
    this.#take(translated.events);
    return translated.goingAway ? { kind: "goingAway" } : undefined;
  }

  #take(events: WatchEvent[]): void {
    this.#ready = events;
    this.#given = 0;
  }

  /**
   * Gives out the next event of the last response, and with a point takes its token: not before,
   * since whoever stops reading here has not seen what comes before the point.
   */
  #nextReady(): WatchEvent | undefined {
    const event = this.#ready[this.#given];
    if (event === undefined) {
      return undefined;
    }
    this.#given += 1;
    switch (event.type) {
      case "initDone":
      case "caughtUp":
      case "resumed":
      case "bookmark":
        if (event.point.resumeToken !== "") {
          this.#position = event.point.resumeToken;
        }
        this.#told.clear();
        this.#syncing = false;
        break;
      case "initBegin":
      case "netBegin":
      case "manifestBegin":
        this.#syncing = true;
        break;
      case "disconnected":
        this.#syncing = false;
        break;
      case "apply":
      case "delete":
        if (!this.#syncing) {
          this.#told.record(event.object);
        }
        break;
    }
    return event;
  }

  /**
   * Decides when and from where to go on.
   *
   * @throws WatchEndedError if no way leads on
   */
  #lose(cause: Disconnect, lived: number | undefined): void {
    const good = lived !== undefined && lived >= SHORTEST_GOOD_STREAM;
    if (lived !== undefined && lived >= HEALTHY_AFTER) {
      this.#backoff.reset();
    }
    if (good) {
      this.#hasty = 0;
    }
    switch (cause.kind) {
      case "error":
        this.#wait(cause, this.#delayAfter(cause.error));
        return;
      case "ended":
        if (good) {
          this.#wait(cause, this.#backoff.jittered(RECONNECT_SPREAD));
          return;
        }
        break;
      case "goingAway":
        if (this.#hasty === 0) {
          if (!good) {
            this.#hasty += 1;
          }
          this.#wait(cause, this.#backoff.jittered(RECONNECT_SPREAD));
          return;
        }
        break;
    }
    this.#wait(cause, this.#backoff.next());
  }

  /** Takes the consequences of an error, and says in how many milliseconds to go on. */
  #delayAfter(error: ListwatchError): number {
    const fails = this.#settings.onExpired === "fail";
    switch (verdict(error)) {
      case "refused":
        throw new WatchEndedError("refused", error);
      case "resume":
        break;
      case "ahead":
        this.#attemptsAhead += 1;
        if (this.#attemptsAhead >= MAX_ATTEMPTS_AHEAD) {
          if (fails) {
            throw new WatchEndedError("expired", error);
          }
          this.#attemptsAhead = 0;
          this.#startOver();
        }
        break;
      case "badToken": {
        // One that this watcher was given by the server went bad with the server.
        const isOwn = this.#position !== undefined;
        const isOptional = this.#settings.tokenIsOptional && typeof this.#nextStart === "object";
        if (fails || !(isOwn || isOptional)) {
          throw new WatchEndedError("refused", error);
        }
        this.#startOver();
        break;
      }
      case "dataLoss":
        this.#startOver();
        break;
      case "startOver":
        if (fails) {
          throw new WatchEndedError("expired", error);
        }
        if (this.#startsWithState()) {
          // An initial state cannot expire, unless it was asked for at a revision.
          this.#countUnexplained(error);
        }
        this.#startOver();
        break;
      case "unexplained":
        if (fails) {
          throw new WatchEndedError("expired", error);
        }
        this.#countUnexplained(error);
        this.#startOver();
        break;
    }
    if (error.retryAfter === undefined) {
      return this.#backoff.next();
    }
    // At least what the server says, and not everyone at the same moment.
    const delay = Math.max(error.retryAfter, SHORTEST_RETRY_AFTER);
    return delay + this.#backoff.jittered(delay / 10);
  }

  #countUnexplained(error: ListwatchError): void {
    this.#unexplained += 1;
    if (this.#unexplained >= MAX_UNEXPLAINED) {
      throw new WatchEndedError("refused", error);
    }
  }

  #startsWithState(): boolean {
    return this.#position === undefined && this.#nextStart === "initialState";
  }

  #startOver(): void {
    this.#position = undefined;
    this.#nextStart = "initialState";
    this.#told.clear();
    // A revision that was asked for at the start is of the past, perhaps of another store.
    this.#consistency = undefined;
  }

  #wait(cause: Disconnect, delay: number): void {
    this.#ready.push({ type: "disconnected", cause, retryIn: delay });
    this.#state = { at: "waiting", until: performance.now() + delay };
  }
}

/** Whether what an earlier stream told is now behind. */
function isPointBeyondTheStart(event: WatchEvent): boolean {
  return event.type === "initDone" || event.type === "caughtUp" || event.type === "bookmark";
}
