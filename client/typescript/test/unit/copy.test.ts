import assert from "node:assert/strict";
import { test } from "node:test";

import type { Resource } from "../../src/gen/listwatch/v1/listwatch_pb.js";
import { Copy } from "../../src/reflector/copy.js";
import type { Point, WatchEvent } from "../../src/watcher/event.js";
import { pod } from "./responses.js";

const point: Point = { revision: 9n, resumeToken: "t9", latestRevision: 9n, coalesced: 0n };
const apply = (object: Resource): WatchEvent => ({
  type: "apply",
  object,
  previous: undefined,
  change: "upserted",
});
const remove = (object: Resource): WatchEvent => ({
  type: "delete",
  object,
  previous: undefined,
  cause: 1,
});
const lost: WatchEvent = { type: "disconnected", cause: { kind: "ended" }, retryIn: 0 };

function holding(...objects: Resource[]): Copy {
  const copy = new Copy();
  take(copy, [
    { type: "initBegin" },
    ...objects.map((object): WatchEvent => ({ type: "initApply", object })),
    { type: "initDone", point },
  ]);
  copy.publish();
  return copy;
}

function take(copy: Copy, events: WatchEvent[]): string {
  return events.map((event) => copy.apply(event)).at(-1) ?? "";
}

function told(copy: Copy): string[] {
  const text = (object?: Resource) => object && `${object.uid}@${object.revision}`;
  return copy.publish().map(({ key, old, new: now }) => `${key} ${text(old)} ${text(now)}`);
}

function held(copy: Copy): string[] {
  return [...copy.published.entries()].map(([key, object]) => `${key}@${object.revision}`);
}

test("a new state tells what differs, and objects that are the same stay the very same", () => {
  const a = pod("a", 1);
  const copy = holding(a, pod("b", 2), pod("c", 3));
  const end = take(copy, [
    { type: "initBegin" },
    { type: "initApply", object: pod("a", 1) },
    { type: "initApply", object: pod("b", 8) },
    { type: "initApply", object: pod("d", 9) },
    { type: "initDone", point },
  ]);
  assert.equal(end, "swapped");
  assert.deepEqual(told(copy), [
    "/b u-b@2 u-b@8",
    "/c u-c@3 undefined",
    "/d undefined u-d@9",
  ]);
  assert.equal(copy.published.get("/a"), a);
});

test("a state that breaks off is thrown away", () => {
  for (const type of ["initBegin", "netBegin", "manifestBegin"] as const) {
    const copy = holding(pod("a", 1), pod("b", 2));
    take(copy, [{ type }, apply(pod("a", 5)), remove(pod("b", 6)), lost]);
    assert.ok(!copy.hasChanges);
    copy.publish();
    assert.deepEqual(held(copy), ["/a@1", "/b@2"]);
  }
});

test("a net difference changes what it names", () => {
  const copy = holding(pod("a", 1), pod("b", 2), pod("c", 3));
  take(copy, [
    { type: "netBegin" },
    apply(pod("a", 5)),
    remove(pod("b", 6)),
    apply(pod("c", 3)),
    { type: "caughtUp", point },
  ]);
  assert.deepEqual(told(copy), ["/a u-a@1 u-a@5", "/b u-b@2 undefined"]);
  assert.deepEqual(held(copy), ["/a@5", "/c@3"]);
});

test("what a manifest does not name is gone", () => {
  const copy = holding(pod("a", 1), pod("b", 2), pod("c", 3));
  take(copy, [
    { type: "manifestBegin" },
    apply(pod("a", 5)),
    { type: "unchanged", object: pod("b", 2) },
    { type: "caughtUp", point },
  ]);
  assert.deepEqual(told(copy), ["/a u-a@1 u-a@5", "/c u-c@3 undefined"]);
});

test("an object that is unchanged for the server only is a contradiction", () => {
  for (const object of [pod("b", 2), pod("a", 2), pod("a", 1, "other")]) {
    const copy = holding(pod("a", 1));
    assert.equal(take(copy, [{ type: "manifestBegin" }, { type: "unchanged", object }]), "contradiction");
  }
});

test("a late deletion leaves the object that took the name", () => {
  const copy = holding(pod("a", 7, "new"));
  take(copy, [remove(pod("a", 5, "old")), remove(pod("absent", 8))]);
  assert.ok(!copy.hasChanges);
  take(copy, [remove(pod("a", 8, "new"))]);
  assert.deepEqual(told(copy), ["/a new@7 undefined"]);
  assert.equal(copy.newestRevision, 8n);
});

test("another uid under a key is one change", () => {
  const copy = holding(pod("a", 1, "old"));
  take(copy, [remove(pod("a", 5, "old")), apply(pod("a", 6, "new"))]);
  assert.deepEqual(told(copy), ["/a old@1 new@6"]);
});

test("what came and went between two snapshots is not told", () => {
  const copy = holding(pod("a", 1));
  take(copy, [apply(pod("b", 5)), remove(pod("b", 6)), apply(pod("a", 1))]);
  assert.deepEqual(told(copy), []);
});

test("a snapshot stays what it was", () => {
  const copy = holding(pod("a", 1));
  const shown = copy.published;
  take(copy, [apply(pod("a", 5))]);
  assert.equal(copy.published, shown);
  copy.publish();
  assert.equal(shown.get("/a")?.revision, 1n);
});
