import assert from "node:assert/strict";
import { test } from "node:test";

import { Told } from "../../src/watcher/told.js";
import { pod } from "./responses.js";

test("what is told are all lower revisions, and of the last the keys", () => {
  const told = new Told();
  assert.ok(!told.includes(pod("a", 1)));
  told.record(pod("a", 5));
  told.record(pod("b", 5));
  assert.ok(told.includes(pod("z", 4)));
  assert.ok(told.includes(pod("b", 5)));
  assert.ok(!told.includes(pod("c", 5)));
  assert.ok(!told.includes(pod("a", 6)));
  told.record(pod("c", 6));
  assert.ok(told.includes(pod("x", 5)));
});

test("streams that broke one after the other told the sum of it", () => {
  const [first, second] = [new Told(), new Told()];
  first.record(pod("a", 5));
  second.record(pod("b", 5));
  second.absorb(first);
  assert.ok(second.includes(pod("a", 5)) && second.includes(pod("b", 5)));
  const third = new Told();
  third.record(pod("c", 4));
  third.absorb(second);
  assert.ok(third.includes(pod("b", 5)) && !third.includes(pod("c", 5)));
});

test("a new point leaves nothing told", () => {
  const told = new Told();
  told.record(pod("a", 5));
  told.clear();
  assert.ok(!told.includes(pod("a", 5)));
});
