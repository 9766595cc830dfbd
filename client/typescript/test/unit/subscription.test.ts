import assert from "node:assert/strict";
import { test } from "node:test";

import type { Resource } from "../../src/gen/listwatch/v1/listwatch_pb.js";
import type { ObjectChange } from "../../src/reflector/copy.js";
import { Subscription } from "../../src/reflector/subscription.js";
import { pod } from "./responses.js";

const change = (name: string, old?: Resource, now?: Resource): ObjectChange => ({
  key: `/${name}`,
  old,
  new: now,
});

async function rest(subscription: Subscription): Promise<string[]> {
  subscription.end(undefined);
  const lines = [];
  for await (const notice of subscription) {
    lines.push(
      notice.type === "synced"
        ? "synced"
        : `${notice.key} ${notice.old?.revision} ${notice.new?.revision}`,
    );
  }
  return lines;
}

test("a slow subscriber gets the newest change of each key, in the order of the first", async () => {
  const subscription = new Subscription(() => {});
  subscription.push([change("a", undefined, pod("a", 1)), change("b", pod("b", 2), pod("b", 3))]);
  subscription.push([change("b", pod("b", 3), pod("b", 4)), change("a", pod("a", 1), pod("a", 5))]);
  assert.equal(subscription.waiting, 2);
  assert.deepEqual(await rest(subscription), ["/a undefined 5", "/b 2 4"]);
});

test("what came and went unseen leaves the queue", async () => {
  const subscription = new Subscription(() => {});
  subscription.push([change("a", undefined, pod("a", 1))]);
  subscription.push([change("a", pod("a", 1), undefined)]);
  assert.equal(subscription.waiting, 0);
  assert.deepEqual(await rest(subscription), []);
});

test("an object that was told of is told gone", async () => {
  const subscription = new Subscription(() => {});
  subscription.push([change("a", undefined, pod("a", 1))]);
  await subscription.next();
  subscription.push([change("a", pod("a", 1), pod("a", 2))]);
  subscription.push([change("a", pod("a", 2), undefined)]);
  assert.deepEqual(await rest(subscription), ["/a 1 undefined"]);
});

test("synced comes after the first state and before what follows", async () => {
  const subscription = new Subscription(() => {});
  subscription.push([change("a", undefined, pod("a", 1))]);
  subscription.markSynced();
  subscription.push([change("b", undefined, pod("b", 2)), change("a", pod("a", 1), pod("a", 3))]);
  subscription.markSynced();
  assert.deepEqual(await rest(subscription), ["/a undefined 3", "synced", "/b undefined 2"]);
});

test("who waits is told, and an error ends it after all the rest", async () => {
  const subscription = new Subscription(() => {});
  const waiting = subscription.next();
  subscription.push([change("a", undefined, pod("a", 1)), change("b", undefined, pod("b", 1))]);
  subscription.end(new Error("refused"));
  assert.equal((await waiting).value?.type, "change");
  assert.equal((await subscription.next()).value?.type, "change");
  await assert.rejects(subscription.next(), /refused/);
  assert.ok((await subscription.next()).done);
});

test("leaving the loop leaves the reflector", async () => {
  let left = 0;
  const subscription = new Subscription(() => (left += 1));
  subscription.push([change("a", undefined, pod("a", 1))]);
  for await (const _ of subscription) {
    break;
  }
  assert.equal(left, 1);
});
