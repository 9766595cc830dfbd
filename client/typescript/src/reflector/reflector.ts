import { asyncDispose } from "../async-dispose.js";
import type { Resource } from "../gen/listwatch/v1/listwatch_pb.js";
import type { NamespacedName, ObjectKey } from "../object-key.js";
import { startTimer } from "../sleep.js";
import type { Point, WatchEvent } from "../watcher/event.js";
import type { WatchOptions } from "../watcher/options.js";
import type { Watcher } from "../watcher/watcher.js";
import { Copy } from "./copy.js";
import { Snapshot } from "./snapshot.js";
import {
  ReflectorClosedError,
  WaitTimeoutError,
  type Connection,
  type ReflectorStatus,
} from "./status.js";
import { Subscription } from "./subscription.js";

/**
 * How long, in milliseconds, changes wait for the bookmark that completes their revision.
 * Listwatch's servers send it with them; one that does not must not keep changes back until the
 * next interval ends.
 */
const SETTLE = 100;

/** What an earlier reflector of the same selector and view held. */
export interface SavedState {
  /** {@link Snapshot.values}. */
  readonly objects: Iterable<Resource>;
  /** {@link Snapshot.revision}. */
  readonly revision: bigint;
  /** {@link Snapshot.resumeToken}. */
  readonly resumeToken: string;
}

/**
 * How to watch for a reflector. It begins with the initial state, or after what it is restored
 * with, and starts over when history is gone.
 */
export interface ReflectorOptions extends Omit<WatchOptions, "start" | "onExpired"> {
  /** Begins with this, marked stale, and resumes after it. */
  readonly restore?: SavedState;
}

/** How long to wait. */
export interface WaitOptions {
  /** In milliseconds. Default: as long as it takes. */
  readonly timeout?: number;
  /** Ends the waiting, by the signal's reason. */
  readonly signal?: AbortSignal;
}

interface Waiter {
  readonly holds: (status: ReflectorStatus) => boolean;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A copy of what a selector matches, kept in step with the server until it is closed. Made by
 * {@link Client.reflector}.
 *
 * What is held is served while the stream is down, however long, marked stale. A new state is
 * built beside it and swapped in when it is complete.
 */
export class Reflector implements AsyncDisposable {
  readonly #watcher: Watcher;
  readonly #copy = new Copy();
  #snapshot = new Snapshot(this.#copy.published, 0n, undefined);
  #status: ReflectorStatus = {
    connection: { state: "connecting" },
    ready: false,
    staleSince: new Date(),
    revision: 0n,
    latestRevision: 0n,
    initialStates: 0,
  };
  readonly #subscriptions = new Set<Subscription>();
  readonly #waiters = new Set<Waiter>();
  /** Of the current state, which may be ahead of the snapshot. */
  #revision = 0n;
  #resumeToken: string | undefined;
  /**
   * The stream broke while changes waited for their bookmark: they may be half of a revision, of
   * which the next stream tells the other half.
   */
  #torn = false;
  /** What a resumed stream has to reach before the copy is in step again. */
  #target: bigint | undefined;
  #settling: ReturnType<typeof setTimeout> | undefined;
  readonly #run: Promise<void>;

  /** Use {@link Client.reflector}. */
  constructor(watcher: Watcher, restore: SavedState | undefined) {
    this.#watcher = watcher;
    if (restore !== undefined) {
      this.#copy.restore(restore.objects);
      this.#revision = restore.revision;
      this.#resumeToken = restore.resumeToken;
      this.#publish();
    }
    this.#run = this.#follow();
  }

  /** The newest consistent state. */
  snapshot(): Snapshot {
    return this.#snapshot;
  }

  /** One object of the newest state. For several that fit together take a {@link snapshot}. */
  get(key: ObjectKey | NamespacedName): Resource | undefined {
    return this.#snapshot.get(key);
  }

  /** The revision that the newest state shows; 0 before the first is complete. */
  get revision(): bigint {
    return this.#snapshot.revision;
  }

  /** Where a watch of the same selector goes on after the newest state. */
  get resumeToken(): string | undefined {
    return this.#snapshot.resumeToken;
  }

  /** How the reflector is doing. */
  get status(): ReflectorStatus {
    return this.#status;
  }

  /** Tells of every object that is held and then of every change, at the subscriber's own pace. */
  subscribe(): Subscription {
    const subscription = new Subscription((left) => this.#subscriptions.delete(left));
    const existing = [...this.#snapshot].map(([key, object]) => ({
      key,
      old: undefined,
      new: object,
    }));
    subscription.push(existing);
    if (this.#status.ready) {
      subscription.markSynced();
    }
    const { connection } = this.#status;
    if (connection.state === "stopped") {
      subscription.end(connection.error);
    } else {
      this.#subscriptions.add(subscription);
    }
    return subscription;
  }

  /**
   * Waits until the copy has been in step with the server for the first time.
   *
   * @throws WaitTimeoutError if that takes too long, as when the server never ends the initial
   * state; the {@link WatchEndedError} that stopped the reflector, or ReflectorClosedError
   */
  waitUntilReady(options: WaitOptions = {}): Promise<Snapshot> {
    return this.#wait((status) => status.ready, options);
  }

  /**
   * Waits until the snapshot shows at least this revision: after a write, that of the write's
   * answer, to read what was written. If the selector does not match what was written, only the
   * next bookmark can tell, so allow for a bookmark interval.
   *
   * @throws the same as {@link waitUntilReady}
   */
  waitForRevision(revision: bigint, options: WaitOptions = {}): Promise<Snapshot> {
    return this.#wait((status) => status.revision >= revision, options);
  }

  /** Cancels the stream. What is held can still be read. */
  async close(): Promise<void> {
    this.#watcher.close();
    await this.#run;
  }

  [asyncDispose](): Promise<void> {
    return this.close();
  }

  async #follow(): Promise<void> {
    let error: Error | undefined;
    try {
      for await (const event of this.#watcher) {
        this.#take(event);
        if (this.#watcher.responseIsDone) {
          this.#endResponse();
        }
      }
    } catch (thrown) {
      error = thrown instanceof Error ? thrown : new Error(String(thrown), { cause: thrown });
    }
    clearTimeout(this.#settling);
    this.#fallBehind({ state: "stopped", error });
    for (const subscription of this.#subscriptions) {
      subscription.end(error);
    }
    this.#subscriptions.clear();
    for (const waiter of this.#waiters) {
      waiter.reject(error ?? new ReflectorClosedError());
    }
  }

  #take(event: WatchEvent): void {
    switch (event.type) {
      case "initBegin":
      case "netBegin":
      case "manifestBegin":
        // Before it in the same response are whole revisions.
        if (!this.#torn) {
          this.#publish();
        }
        this.#fallBehind({ state: "syncing" });
        break;
      case "disconnected": {
        this.#torn = this.#copy.hasChanges;
        this.#target = undefined;
        const retryAt = new Date(Date.now() + event.retryIn);
        this.#fallBehind({ state: "disconnected", cause: event.cause, retryAt });
        break;
      }
    }
    const applied = this.#copy.apply(event);
    if (applied === "contradiction") {
      this.#watcher.restart();
      return;
    }
    switch (event.type) {
      case "resumed":
        this.#target = max(event.point.latestRevision, event.point.revision);
        this.#reach(event.point, false, false);
        break;
      case "initDone":
      case "caughtUp":
      case "bookmark":
        this.#torn = false;
        this.#reach(event.point, applied === "swapped", event.type === "initDone");
        break;
    }
  }

  /** Takes a point: everything up to it is in the copy. */
  #reach(point: Point, swapped: boolean, initial: boolean): void {
    if (point.resumeToken !== "") {
      this.#resumeToken = point.resumeToken;
    }
    // Back only with a whole new state, which may be of another store.
    this.#revision = swapped ? point.revision : max(this.#revision, point.revision);
    if (!this.#torn) {
      this.#publish();
    }
    const inStep = swapped || this.#target === undefined || this.#revision >= this.#target;
    if (inStep) {
      this.#target = undefined;
    }
    const newlyReady = inStep && !this.#status.ready;
    this.#update({
      latestRevision: max(point.latestRevision, point.revision),
      connection: { state: "live" },
      initialStates: this.#status.initialStates + (initial ? 1 : 0),
      ...(inStep && { staleSince: undefined, ready: true }),
    });
    if (newlyReady) {
      for (const subscription of this.#subscriptions) {
        subscription.markSynced();
      }
    }
  }

  /** All of a response has been taken. Changes without a bookmark wait for it a moment. */
  #endResponse(): void {
    if (!this.#copy.hasChanges || this.#torn) {
      clearTimeout(this.#settling);
      this.#settling = undefined;
      return;
    }
    this.#settling ??= startTimer(SETTLE, () => {
      this.#settling = undefined;
      this.#publish();
    });
  }

  /** Lets readers see the current state. */
  #publish(): void {
    const shown = this.#snapshot;
    if (
      !this.#copy.hasChanges &&
      shown.revision === this.#revision &&
      shown.resumeToken === this.#resumeToken
    ) {
      return;
    }
    const changes = this.#copy.publish();
    // Without a bookmark, the changes themselves say how far the state is.
    this.#revision = max(this.#revision, this.#copy.newestRevision);
    // First, so that a subscriber who looks finds at least what it was told.
    this.#snapshot = new Snapshot(this.#copy.published, this.#revision, this.#resumeToken);
    if (changes.length > 0) {
      for (const subscription of this.#subscriptions) {
        subscription.push(changes);
      }
    }
    this.#update({
      revision: this.#revision,
      latestRevision: max(this.#status.latestRevision, this.#revision),
    });
  }

  #fallBehind(connection: Connection): void {
    this.#update({ connection, staleSince: this.#status.staleSince ?? new Date() });
  }

  #update(changes: Partial<ReflectorStatus>): void {
    this.#status = { ...this.#status, ...changes };
    for (const waiter of this.#waiters) {
      if (waiter.holds(this.#status)) {
        waiter.resolve();
      }
    }
  }

  async #wait(
    holds: (status: ReflectorStatus) => boolean,
    { timeout, signal }: WaitOptions,
  ): Promise<Snapshot> {
    signal?.throwIfAborted();
    if (holds(this.#status)) {
      return this.#snapshot;
    }
    const { connection } = this.#status;
    if (connection.state === "stopped") {
      throw connection.error ?? new ReflectorClosedError();
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    let waiter: Waiter | undefined;
    let abort: (() => void) | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        waiter = { holds, resolve, reject };
        this.#waiters.add(waiter);
        abort = () => reject(signal?.reason);
        signal?.addEventListener("abort", abort);
        if (timeout !== undefined) {
          timer = startTimer(timeout, () => reject(new WaitTimeoutError(timeout, this.#status)));
        }
      });
    } finally {
      clearTimeout(timer);
      if (waiter !== undefined) {
        this.#waiters.delete(waiter);
      }
      if (abort !== undefined) {
        signal?.removeEventListener("abort", abort);
      }
    }
    return this.#snapshot;
  }
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
