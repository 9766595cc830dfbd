import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import type { WatchResponse } from "../../src/gen/listwatch/v1/listwatch_pb.js";
import type { Phase } from "../../src/watcher/phase.js";
import { Stream } from "../../src/watcher/stream.js";
import { Told } from "../../src/watcher/told.js";
import { response } from "./responses.js";

const PATIENCE = { firstResponse: 60, silence: 90, progress: 120 };

/** A stream that gives what it has, and then nothing until it is cancelled. */
function stream(phase: Phase, ...responses: WatchResponse[]): Stream {
  async function* open(signal: AbortSignal) {
    yield* responses;
    await new Promise((_, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason)),
    );
  }
  return new Stream(open, phase, new Told(), PATIENCE);
}

async function causeOfLoss(subject: Stream): Promise<string> {
  for (;;) {
    const read = await subject.read();
    if (read.kind !== "response") {
      subject.cancel();
      return read.kind === "lost" ? read.cause.kind : read.kind;
    }
  }
}

test("a stream that says nothing is lost, for the reason that fits", async () => {
  assert.equal(await causeOfLoss(stream("openedForState")), "noResponse");
  assert.equal(await causeOfLoss(stream("live", response([], "PROGRESS"))), "silent");
});

test("a beginning that is only kept alive is lost", async () => {
  async function* open() {
    for (;;) {
      yield response([], "PROGRESS");
      await sleep(30);
    }
  }
  assert.equal(await causeOfLoss(new Stream(open, "initial", new Told(), PATIENCE)), "noProgress");
});

test("time in which no one reads is no silence", async () => {
  const subject = stream("live", response([], "PROGRESS"), response([], "PROGRESS"));
  assert.equal((await subject.read()).kind, "response");
  await sleep(200);
  assert.equal((await subject.read()).kind, "response");
  const began = performance.now();
  assert.equal(await causeOfLoss(subject), "silent");
  assert.ok(performance.now() - began >= 85);
});

test("a busy thread is not left in silence: what the socket holds comes first", async () => {
  async function* open() {
    await sleep(50);
    yield response([], "RESUMED");
  }
  const subject = new Stream(open, "openedAfter", new Told(), PATIENCE);
  const read = subject.read();
  const busy = performance.now();
  while (performance.now() - busy < 150);
  assert.equal((await read).kind, "response");
});

test("cancelling ends a read", async () => {
  const subject = stream("live");
  const read = subject.read();
  subject.cancel();
  assert.equal((await read).kind, "cancelled");
});

test("an end and an error are losses", async () => {
  async function* ends() {}
  async function* fails(): AsyncGenerator<never> {
    throw new Error("broken");
  }
  assert.equal(await causeOfLoss(new Stream(ends, "live", new Told(), PATIENCE)), "ended");
  assert.equal(await causeOfLoss(new Stream(fails, "live", new Told(), PATIENCE)), "error");
});
