import assert from "node:assert/strict";
import { test } from "node:test";

import { ListwatchError } from "../../src/error.js";
import type { StatusCode } from "../../src/status-code.js";
import { verdict } from "../../src/watcher/verdict.js";

const of = (code: StatusCode, reason = "", retryAfter?: number) =>
  verdict(new ListwatchError({ code, message: "", reason, retryAfter }));

test("each status has the verdict of the list", () => {
  for (const code of [
    "UNAVAILABLE",
    "INTERNAL",
    "UNKNOWN",
    "CANCELLED",
    "ABORTED",
    "DEADLINE_EXCEEDED",
  ] as const) {
    assert.equal(of(code), "resume", code);
  }
  for (const code of [
    "INVALID_ARGUMENT",
    "FAILED_PRECONDITION",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "UNIMPLEMENTED",
  ] as const) {
    assert.equal(of(code), "refused", code);
  }
  assert.equal(of("RESOURCE_EXHAUSTED", "TOO_MANY_WATCHES", 10), "resume");
  assert.equal(of("RESOURCE_EXHAUSTED", "STORAGE_FULL"), "refused");
  assert.equal(of("OUT_OF_RANGE", "REVISION_COMPACTED"), "startOver");
  assert.equal(of("OUT_OF_RANGE", "STORE_CHANGED"), "startOver");
  assert.equal(of("OUT_OF_RANGE", "REVISION_IN_FUTURE"), "ahead");
  assert.equal(of("OUT_OF_RANGE"), "unexplained");
  assert.equal(of("DATA_LOSS", "STORE_DAMAGED"), "dataLoss");
  assert.equal(of("INVALID_ARGUMENT", "TOKEN_INVALID"), "badToken");
});
