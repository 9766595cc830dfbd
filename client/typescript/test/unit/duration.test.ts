import assert from "node:assert/strict";
import { test } from "node:test";

import { duration, milliseconds } from "../../src/duration.js";

test("milliseconds become seconds and nanoseconds, and come back", () => {
  const { seconds, nanos } = duration(1500.25);
  assert.deepEqual([seconds, nanos], [1n, 500_250_000]);
  assert.equal(milliseconds(duration(1500.25)), 1500.25);
});
