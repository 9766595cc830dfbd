import { asyncDispose } from "../async-dispose.js";
import type { Resource } from "../gen/listwatch/v1/listwatch_pb.js";
import type { ObjectKey } from "../object-key.js";
import { isSameVersion, type ObjectChange } from "./copy.js";

/**
 * What a subscriber is told.
 *
 * The changes of one key are in order and fit together: `old` is the very object that the
 * subscriber was told of last, `undefined` if it knows none; `new` is `undefined` when the object
 * is gone or no longer selected. Another uid in `new` than in `old` means that the old object
 * ended first. A slow subscriber misses versions in between, never the newest one, and never the
 * end of an object that it was told of.
 *
 * `synced` comes once: everything that existed when the reflector first was in step with the
 * server has been told.
 */
export type Notice =
  | ({ readonly type: "change" } & ObjectChange)
  | { readonly type: "synced" };

interface Waiting {
  readonly place: number;
  /** What the subscriber was told last. */
  readonly told: Resource | undefined;
  newest: Resource | undefined;
}

/**
 * One subscriber's view of a reflector's changes, read with `for await`. For each key it keeps
 * the newest change, however slow the subscriber is: it is bounded by the objects that the
 * subscriber was told of and those that exist.
 *
 * It ends when it or the reflector is closed, after what was still to be told; if the server
 * refused the watch, by throwing that error.
 */
export class Subscription implements AsyncIterableIterator<Notice>, AsyncDisposable {
  /** In the order of their places: a key that changes often does not push itself back. */
  readonly #waiting = new Map<ObjectKey, Waiting>();
  #nextPlace = 0;
  /** The place before which everything is part of the first state. */
  #syncedAt: number | undefined;
  #syncedTold = false;
  #end: { readonly error: Error | undefined } | undefined;
  #readers: (() => void)[] = [];
  readonly #left: (subscription: Subscription) => void;

  /** Use {@link Reflector.subscribe}. */
  constructor(left: (subscription: Subscription) => void) {
    this.#left = left;
  }

  /** How many keys wait to be told. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** The next notice. */
  async next(): Promise<IteratorResult<Notice, undefined>> {
    for (;;) {
      const notice = this.#pop();
      if (notice !== undefined) {
        return { done: false, value: notice };
      }
      if (this.#end !== undefined) {
        if (this.#end.error !== undefined) {
          const { error } = this.#end;
          this.#end = { error: undefined };
          throw error;
        }
        return { done: true, value: undefined };
      }
      await new Promise<void>((resolve) => this.#readers.push(resolve));
    }
  }

  /** Ends the subscription. */
  async return(): Promise<IteratorResult<Notice, undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  /** Ends the subscription: nothing more is told. */
  close(): void {
    this.#waiting.clear();
    this.#syncedTold = true;
    this.#left(this);
    this.end(undefined);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [asyncDispose](): Promise<void> {
    this.close();
  }

  /** @internal */
  push(changes: Iterable<ObjectChange>): void {
    for (const change of changes) {
      const waiting = this.#waiting.get(change.key);
      const told = waiting === undefined ? change.old : waiting.told;
      if (isSameVersion(told, change.new)) {
        // It came and went unseen, or is what the subscriber holds.
        this.#waiting.delete(change.key);
      } else if (waiting !== undefined) {
        waiting.newest = change.new;
      } else {
        const place = this.#nextPlace++;
        this.#waiting.set(change.key, { place, told, newest: change.new });
      }
    }
    this.#wake();
  }

  /** @internal */
  markSynced(): void {
    this.#syncedAt ??= this.#nextPlace;
    this.#wake();
  }

  /** @internal */
  end(error: Error | undefined): void {
    this.#end ??= { error };
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#readers.splice(0)) {
      wake();
    }
  }

  #pop(): Notice | undefined {
    const first = this.#waiting.entries().next();
    const place = first.done === true ? Infinity : first.value[1].place;
    if (this.#syncedAt !== undefined && !this.#syncedTold && place >= this.#syncedAt) {
      this.#syncedTold = true;
      return { type: "synced" };
    }
    if (first.done === true) {
      return undefined;
    }
    const [key, { told, newest }] = first.value;
    this.#waiting.delete(key);
    return { type: "change", key, old: told, new: newest };
  }
}
