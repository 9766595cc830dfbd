import type { Resource } from "../gen/listwatch/v1/listwatch_pb.js";
import { objectKey } from "../object-key.js";

/**
 * What has been given out after the last point. If the stream breaks, the one that resumes from
 * that point tells it again.
 */
export class Told {
  #lastRevision = 0n;
  /** Those of the last revision: it may have been told by half. */
  #keys = new Set<string>();

  record(object: Resource): void {
    if (object.revision > this.#lastRevision) {
      this.#lastRevision = object.revision;
      this.#keys.clear();
    }
    if (object.revision === this.#lastRevision && object.key !== undefined) {
      this.#keys.add(objectKey(object.key));
    }
  }

  /** Adds what an earlier stream told. */
  absorb(earlier: Told): void {
    if (earlier.#lastRevision > this.#lastRevision) {
      this.#lastRevision = earlier.#lastRevision;
      this.#keys = new Set(earlier.#keys);
    } else if (earlier.#lastRevision === this.#lastRevision) {
      for (const key of earlier.#keys) {
        this.#keys.add(key);
      }
    }
  }

  clear(): void {
    this.#lastRevision = 0n;
    this.#keys.clear();
  }

  includes(object: Resource): boolean {
    return (
      object.revision < this.#lastRevision ||
      (object.revision === this.#lastRevision &&
        object.key !== undefined &&
        this.#keys.has(objectKey(object.key)))
    );
  }
}
