import assert from "node:assert/strict";
import { test } from "node:test";

import { Backoff, DEFAULT_BACKOFF } from "../../src/backoff.js";

test("delays double from 800 ms to 30 s", () => {
  const backoff = new Backoff(DEFAULT_BACKOFF, () => 1);
  const delays = Array.from({ length: 8 }, () => backoff.next());
  assert.deepEqual(delays, [800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
  backoff.reset();
  assert.equal(backoff.next(), 800);
});

test("jitter is full", () => {
  assert.equal(new Backoff(DEFAULT_BACKOFF, () => 0).next(), 0);
  assert.equal(new Backoff(DEFAULT_BACKOFF, () => 0.5).next(), 400);
});

test("a factor below one does not shorten delays", () => {
  const backoff = new Backoff({ initial: 100, factor: 0.5, max: 1000 }, () => 1);
  assert.deepEqual([backoff.next(), backoff.next()], [100, 100]);
});
