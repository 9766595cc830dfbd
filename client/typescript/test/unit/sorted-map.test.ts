import assert from "node:assert/strict";
import { test } from "node:test";

import { Draft, SortedMap } from "../../src/reflector/sorted-map.js";

/** The same numbers each time. */
function pseudorandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

test("a sorted map does what a Map does, in order", () => {
  const random = pseudorandom(7);
  const model = new Map<string, number>();
  const draft = new Draft<number>();
  for (let step = 0; step < 20_000; step += 1) {
    const key = `k${Math.floor(random() * 3000)}`;
    if (random() < 0.35) {
      model.delete(key);
      draft.delete(key);
    } else {
      model.set(key, step);
      draft.set(key, step);
    }
  }
  const map = draft.freeze();
  assert.equal(map.size, model.size);
  const expected = [...model].sort(([a], [b]) => (a < b ? -1 : 1));
  assert.deepEqual([...map.entries()], expected);
  for (const [key, value] of model) {
    assert.equal(map.get(key), value);
  }
  assert.equal(map.get("absent"), undefined);
});

test("what was frozen never changes", () => {
  const draft = new Draft<number>();
  for (let i = 0; i < 1000; i += 1) {
    draft.set(String(i), i);
  }
  const before = draft.freeze();
  const entries = [...before.entries()];
  draft.set("5", -1);
  draft.delete("6");
  const other = before.draft();
  other.delete("7");
  assert.deepEqual([...before.entries()], entries);
  assert.equal(draft.freeze().get("5"), -1);
  assert.equal(draft.freeze().get("7"), 7);
  assert.equal(other.freeze().size, 999);
});

test("an empty map has nothing", () => {
  const empty = SortedMap.empty<number>();
  assert.deepEqual([...empty.entries()], []);
  const draft = empty.draft();
  draft.delete("a");
  draft.set("a", 1);
  draft.delete("a");
  assert.equal(draft.freeze().size, 0);
});
