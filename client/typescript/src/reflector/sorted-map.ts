/**
 * Chunks split when they grow beyond this. A change copies one chunk and the list of chunks, so
 * that what is shown stays as it is: some hundred pointers, however many entries there are.
 */
const MAX_CHUNK = 256;

interface Chunk<V> {
  readonly keys: string[];
  readonly values: V[];
}

/** A map that never changes, ordered by its keys' text. Changed copies are made by {@link Draft}. */
export class SortedMap<V> {
  readonly size: number;
  /** None of them empty. */
  readonly #chunks: readonly Chunk<V>[];

  private constructor(chunks: readonly Chunk<V>[], size: number) {
    this.#chunks = chunks;
    this.size = size;
  }

  static empty<V>(): SortedMap<V> {
    return new SortedMap<V>([], 0);
  }

  /** Takes the chunks as its own. */
  static of<V>(chunks: readonly Chunk<V>[], size: number): SortedMap<V> {
    return new SortedMap(chunks, size);
  }

  get(key: string): V | undefined {
    return find(this.#chunks, key);
  }

  *entries(): IterableIterator<[string, V]> {
    for (const { keys, values } of this.#chunks) {
      for (const [i, key] of keys.entries()) {
        yield [key, values[i] as V];
      }
    }
  }

  /** A copy that can be changed. Costs as much as its changes do. */
  draft(): Draft<V> {
    return new Draft(this.#chunks, this.size);
  }
}

/** A map that is being changed, from which {@link SortedMap}s are taken. */
export class Draft<V> {
  #chunks: Chunk<V>[];
  #size: number;
  /** The chunks that no other map shares. */
  #own = new WeakSet<Chunk<V>>();

  constructor(chunks: readonly Chunk<V>[] = [], size = 0) {
    this.#chunks = chunks.slice();
    this.#size = size;
  }

  get(key: string): V | undefined {
    return find(this.#chunks, key);
  }

  set(key: string, value: V): void {
    const chunk = this.#ownChunk(chunkOf(this.#chunks, key));
    const at = lowerBound(chunk.keys, key);
    if (chunk.keys[at] === key) {
      chunk.values[at] = value;
      return;
    }
    chunk.keys.splice(at, 0, key);
    chunk.values.splice(at, 0, value);
    this.#size += 1;
    if (chunk.keys.length > MAX_CHUNK) {
      this.#split(chunk, at === chunk.keys.length - 1);
    }
  }

  delete(key: string): void {
    const index = chunkOf(this.#chunks, key);
    if (this.get(key) === undefined) {
      return;
    }
    const chunk = this.#ownChunk(index);
    const at = lowerBound(chunk.keys, key);
    chunk.keys.splice(at, 1);
    chunk.values.splice(at, 1);
    this.#size -= 1;
    if (chunk.keys.length === 0) {
      this.#chunks.splice(index, 1);
    }
  }

  /** The map as it is now. The draft can be changed further. */
  freeze(): SortedMap<V> {
    this.#own = new WeakSet();
    return SortedMap.of(this.#chunks.slice(), this.#size);
  }

  #ownChunk(index: number): Chunk<V> {
    const shared = this.#chunks[index];
    if (shared !== undefined && this.#own.has(shared)) {
      return shared;
    }
    const own: Chunk<V> = {
      keys: shared?.keys.slice() ?? [],
      values: shared?.values.slice() ?? [],
    };
    this.#own.add(own);
    this.#chunks[index] = own;
    return own;
  }

  #split(chunk: Chunk<V>, appended: boolean): void {
    // What comes in order, as an initial state does, leaves full chunks behind.
    const at = appended ? chunk.keys.length - 1 : chunk.keys.length >> 1;
    const rest: Chunk<V> = { keys: chunk.keys.splice(at), values: chunk.values.splice(at) };
    this.#own.add(rest);
    this.#chunks.splice(this.#chunks.indexOf(chunk) + 1, 0, rest);
  }
}

function find<V>(chunks: readonly Chunk<V>[], key: string): V | undefined {
  const chunk = chunks[chunkOf(chunks, key)];
  if (chunk === undefined) {
    return undefined;
  }
  const at = lowerBound(chunk.keys, key);
  return chunk.keys[at] === key ? chunk.values[at] : undefined;
}

/** The chunk that has the key or would get it: the last that does not begin after it. */
function chunkOf<V>(chunks: readonly Chunk<V>[], key: string): number {
  let [low, high] = [0, chunks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const first = chunks[middle]?.keys[0];
    if (first !== undefined && first <= key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return Math.max(low - 1, 0);
}

/** The first place whose key is not before `key`. */
function lowerBound(keys: readonly string[], key: string): number {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((keys[middle] as string) < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
