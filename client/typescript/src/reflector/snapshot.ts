import type { Resource } from "../gen/listwatch/v1/listwatch_pb.js";
import { objectKey, type NamespacedName, type ObjectKey } from "../object-key.js";
import { SortedMap } from "./sorted-map.js";

/**
 * What a reflector held at one moment: every object as of one revision. It never changes, and
 * costs little to keep: snapshots share what they have in common. Its objects are shared too: do
 * not change them.
 *
 * It reads as a `ReadonlyMap` from `namespace/name`, in the order of that text.
 */
export class Snapshot implements ReadonlyMap<ObjectKey, Resource> {
  readonly #objects: SortedMap<Resource>;
  /** The one revision that all objects are shown as of; 0 before the first state is complete. */
  readonly revision: bigint;
  /** Where a watch of the same selector goes on after this; `undefined` before the first point. */
  readonly resumeToken: string | undefined;

  /** Use {@link Reflector.snapshot}. */
  constructor(objects: SortedMap<Resource>, revision: bigint, resumeToken: string | undefined) {
    this.#objects = objects;
    this.revision = revision;
    this.resumeToken = resumeToken;
  }

  /** How many objects there are. */
  get size(): number {
    return this.#objects.size;
  }

  /** The object of this key. */
  get(key: ObjectKey | NamespacedName): Resource | undefined {
    return this.#objects.get(typeof key === "string" ? key : objectKey(key));
  }

  has(key: ObjectKey | NamespacedName): boolean {
    return this.get(key) !== undefined;
  }

  entries(): MapIterator<[ObjectKey, Resource]> {
    return this.#objects.entries() as MapIterator<[ObjectKey, Resource]>;
  }

  *keys(): MapIterator<ObjectKey> {
    for (const [key] of this.entries()) {
      yield key;
    }
  }

  *values(): MapIterator<Resource> {
    for (const [, object] of this.entries()) {
      yield object;
    }
  }

  forEach(
    act: (object: Resource, key: ObjectKey, snapshot: ReadonlyMap<ObjectKey, Resource>) => void,
  ): void {
    for (const [key, object] of this.entries()) {
      act(object, key, this);
    }
  }

  [Symbol.iterator](): MapIterator<[ObjectKey, Resource]> {
    return this.entries();
  }
}
