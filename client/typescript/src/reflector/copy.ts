import type { Resource } from "../gen/listwatch/v1/listwatch_pb.js";
import { objectKey, type ObjectKey } from "../object-key.js";
import type { WatchEvent } from "../watcher/event.js";
import { Draft, SortedMap } from "./sorted-map.js";

/** How one key differs between two snapshots. */
export interface ObjectChange {
  readonly key: ObjectKey;
  readonly old: Resource | undefined;
  readonly new: Resource | undefined;
}

/**
 * What applying an event came to.
 *
 * - `applied`: nothing that matters here.
 * - `swapped`: a stage is complete and has become the current state.
 * - `contradiction`: the server takes the copy for something that it is not: only a new initial
 *   state helps.
 */
export type Applied = "applied" | "swapped" | "contradiction";

/**
 * A state that is not consistent before it is complete. Thrown away if the stream breaks.
 *
 * - `initial`: what was named so far; what is not named is gone.
 * - `manifest`: the same; what is named need not have changed.
 * - `net`: the current state with the changes so far, and the keys that they are about.
 */
type Stage =
  | { readonly of: "initial" | "manifest"; readonly next: Draft<Resource> }
  | { readonly of: "net"; readonly next: Draft<Resource>; readonly touched: Set<ObjectKey> };

/** What events of a stream are applied to. Knows nothing of time, streams or readers. */
export class Copy {
  #published = SortedMap.empty<Resource>();
  /** Ahead of `#published` by what happened to the keys of `#touched`. */
  #current = new Draft<Resource>();
  readonly #touched = new Set<ObjectKey>();
  #newest = 0n;
  #stage: Stage | undefined;

  /** Takes objects that were saved. Only for a copy that is empty. */
  restore(objects: Iterable<Resource>): void {
    for (const object of objects) {
      if (object.key !== undefined) {
        const key = objectKey(object.key);
        this.#touched.add(key);
        this.#current.set(key, object);
      }
    }
  }

  /** Whether there is something to publish. */
  get hasChanges(): boolean {
    return this.#touched.size > 0;
  }

  /** What was last published. */
  get published(): SortedMap<Resource> {
    return this.#published;
  }

  /** The newest revision of single changes since the state was last replaced as a whole. */
  get newestRevision(): bigint {
    return this.#newest;
  }

  /**
   * Declares the current state published and says how it differs from the one before, in the
   * order of the keys.
   */
  publish(): ObjectChange[] {
    const now = this.#current.freeze();
    const changes: ObjectChange[] = [];
    for (const key of [...this.#touched].sort()) {
      const [old, next] = [this.#published.get(key), now.get(key)];
      if (!isSameVersion(old, next)) {
        changes.push({ key, old, new: next });
      }
    }
    this.#touched.clear();
    this.#published = now;
    return changes;
  }

  apply(event: WatchEvent): Applied {
    switch (event.type) {
      case "initBegin":
        this.#stage = { of: "initial", next: new Draft() };
        return "applied";
      case "manifestBegin":
        this.#stage = { of: "manifest", next: new Draft() };
        return "applied";
      case "netBegin": {
        const next = this.#current.freeze().draft();
        this.#stage = { of: "net", next, touched: new Set() };
        return "applied";
      }
      case "initApply":
      case "apply":
        this.#upsert(event.object);
        return "applied";
      case "delete":
        this.#delete(event.object);
        return "applied";
      case "unchanged":
        return this.#confirm(event.object);
      case "initDone":
      case "caughtUp":
        return this.#swap();
      case "disconnected":
        this.#stage = undefined;
        return "applied";
      case "resumed":
      case "bookmark":
        return "applied";
    }
  }

  #upsert(object: Resource): void {
    if (object.key === undefined) {
      return;
    }
    const key = objectKey(object.key);
    const stage = this.#stage;
    const held = stage?.of === "net" ? stage.next.get(key) : this.#current.get(key);
    if (held !== undefined && isSameVersion(held, object)) {
      // Unchanged objects stay the very same.
      if (stage?.of === "initial" || stage?.of === "manifest") {
        stage.next.set(key, held);
      }
      return;
    }
    if (stage !== undefined) {
      stage.next.set(key, object);
      if (stage.of === "net") {
        stage.touched.add(key);
      }
      return;
    }
    this.#current.set(key, object);
    this.#touch(key, object.revision);
  }

  #delete(object: Resource): void {
    if (object.key === undefined) {
      return;
    }
    const key = objectKey(object.key);
    const stage = this.#stage;
    const next = stage?.next ?? this.#current;
    const held = next.get(key);
    // The deletion of an earlier object of this name, told late, leaves the new one alone.
    if (held === undefined || (object.revision > 0n && held.revision > object.revision)) {
      return;
    }
    next.delete(key);
    if (stage === undefined) {
      this.#touch(key, object.revision);
    } else if (stage.of === "net") {
      stage.touched.add(key);
    }
  }

  #confirm(object: Resource): Applied {
    if (object.key === undefined) {
      return "applied";
    }
    const key = objectKey(object.key);
    const held = this.#current.get(key);
    // A manifest has no times.
    if (held?.uid !== object.uid || held.revision !== object.revision) {
      return "contradiction";
    }
    if (this.#stage?.of === "manifest") {
      this.#stage.next.set(key, held);
    }
    return "applied";
  }

  #swap(): Applied {
    const stage = this.#stage;
    if (stage === undefined) {
      return "applied";
    }
    this.#stage = undefined;
    this.#current = stage.next;
    this.#newest = 0n;
    if (stage.of === "net") {
      for (const key of stage.touched) {
        this.#touched.add(key);
      }
      return "swapped";
    }
    this.#touched.clear();
    // Against what readers have: what was current may have been ahead of it.
    for (const [key, old] of this.#published.entries()) {
      if (!isSameVersion(old, stage.next.get(key))) {
        this.#touched.add(key as ObjectKey);
      }
    }
    for (const [key] of stage.next.freeze().entries()) {
      if (this.#published.get(key) === undefined) {
        this.#touched.add(key as ObjectKey);
      }
    }
    return "swapped";
  }

  #touch(key: ObjectKey, revision: bigint): void {
    this.#touched.add(key);
    if (revision > this.#newest) {
      this.#newest = revision;
    }
  }
}

/**
 * Whether two states are one version of one object, or no object both. The time counts too: a
 * store that was restored from a backup gives revisions out a second time.
 */
export function isSameVersion(a: Resource | undefined, b: Resource | undefined): boolean {
  return (
    a?.uid === b?.uid &&
    a?.revision === b?.revision &&
    a?.updateTime?.seconds === b?.updateTime?.seconds &&
    a?.updateTime?.nanos === b?.updateTime?.nanos
  );
}
