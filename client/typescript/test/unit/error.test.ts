import assert from "node:assert/strict";
import { test } from "node:test";

import { Code, ConnectError } from "@connectrpc/connect";

import { toListwatchError } from "../../src/error.js";
import { ErrorInfoSchema, RetryInfoSchema } from "../../src/gen/google/rpc/error_details_pb.js";

test("an error has the server's reason, metadata and time", () => {
  const error = toListwatchError(
    new ConnectError("full", Code.ResourceExhausted, undefined, [
      {
        desc: ErrorInfoSchema,
        value: { domain: "listwatch", reason: "TOO_MANY_WATCHES", metadata: { limit: "3" } },
      },
      { desc: RetryInfoSchema, value: { retryDelay: { seconds: 1n, nanos: 500_000_000 } } },
    ]),
  );
  assert.equal(error.code, "RESOURCE_EXHAUSTED");
  assert.equal(error.message, "full");
  assert.equal(error.reason, "TOO_MANY_WATCHES");
  assert.deepEqual({ ...error.metadata }, { limit: "3" });
  assert.equal(error.retryAfter, 1500);
  assert.ok(error.isRetryable);
});

test("a reason of another domain is none of Listwatch's", () => {
  const value = { domain: "proxy", reason: "REVISION_COMPACTED", metadata: { a: "b" } };
  const error = toListwatchError(
    new ConnectError("gone", Code.OutOfRange, undefined, [{ desc: ErrorInfoSchema, value }]),
  );
  assert.equal(error.reason, "");
  assert.deepEqual(error.metadata, {});
});
