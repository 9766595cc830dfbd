import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { createGrpcTransport } from "@connectrpc/connect-node";

import {
  connect,
  createClient,
  ListwatchError,
  View,
  type Client,
  type WatchEvent,
  type Watcher,
} from "../../src/node.js";
import { Daemon, PACKAGE } from "./daemon.js";

let daemon: Daemon;
let client: Client;

before(async () => {
  daemon = await Daemon.start();
  client = connect(daemon.address);
});

after(() => daemon[Symbol.asyncDispose]());

async function until(holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!(await holds())) {
    assert.ok(performance.now() < deadline, "not within 10 s");
    await sleep(20);
  }
}

async function take(watcher: Watcher, type: WatchEvent["type"]): Promise<WatchEvent> {
  for (;;) {
    const { value } = await watcher.next();
    assert.ok(value, `ended before ${type}`);
    if (value.type === type) {
      return value;
    }
  }
}

test("leaving the loop cancels the stream", async () => {
  for await (const event of client.watch({ collection: "left" })) {
    if (event.type === "initDone") {
      assert.equal((await daemon.openWatches("left")).length, 1);
      break;
    }
  }
  await until(async () => (await daemon.openWatches("left")).length === 0);
});

test("closing wakes whoever waits for an event", async () => {
  const watcher = client.watch({ collection: "closed" });
  await take(watcher, "initDone");
  const waiting = watcher.next();
  watcher.close();
  assert.ok((await waiting).done);
  assert.ok((await watcher.next()).done);
  await until(async () => (await daemon.openWatches("closed")).length === 0);
});

test("a signal ends a watch, a wait and a call by its reason", async () => {
  const abort = new AbortController();
  const { signal } = abort;
  const watcher = client.watch({ collection: "aborted" }, { signal });
  await take(watcher, "initDone");
  const reflector = client.reflector({ collection: "aborted" });
  const ended = [
    watcher.next(),
    reflector.waitForRevision(10n ** 9n, { signal }),
    connect("127.0.0.1:1").status({ signal }),
  ].map((ending) => assert.rejects(ending, /enough/));
  abort.abort(new Error("enough"));
  await Promise.all(ended);
  await assert.rejects(client.status({ signal }), /enough/);
  await reflector.close();
  await until(async () => (await daemon.openWatches("aborted")).length === 0);
});

test("who does not read is not sent to, and then gets everything", async () => {
  const [COUNT, BYTES] = [100, 1_000_000];
  const watcher = client.watch({ collection: "heavy" }, { bookmarkInterval: 1000 });
  await take(watcher, "initDone");
  const value = new Uint8Array(BYTES).fill(120);
  globalThis.gc?.();
  const before = process.memoryUsage();
  for (let i = 0; i < COUNT; i += 1) {
    await client.create({ key: { collection: "heavy", name: `n${i}` }, value });
  }
  // Longer than the silence that is put up with.
  await sleep(3000);
  const [watch] = await daemon.openWatches("heavy");
  // What the windows, Node's buffers and the kernel's hold.
  assert.ok(watch && watch.sentBytes < 20n * BigInt(BYTES), `sent ${watch?.sentBytes} bytes`);
  globalThis.gc?.();
  const { arrayBuffers, external } = process.memoryUsage();
  const grown = Math.max(arrayBuffers - before.arrayBuffers, external - before.external);
  assert.ok(grown < 20 * BYTES, `${grown} bytes are held`);
  for (let i = 0; i < COUNT; i += 1) {
    const { value: event } = await watcher.next();
    if (event?.type === "bookmark") {
      i -= 1;
      continue;
    }
    assert.ok(event?.type === "apply", `${event?.type}`);
    assert.equal(event.object.key?.name, `n${i}`);
  }
  watcher.close();
});

test("a lost server is found again, and what happened meanwhile is told", async () => {
  const reflector = client.reflector({ collection: "lost" }, { backoff: { initial: 50, max: 50 } });
  await reflector.waitUntilReady();
  const first = await client.create({ key: { collection: "lost", name: "a" } });
  await reflector.waitForRevision(first.revision, { timeout: 10_000 });
  const told = reflector.subscribe();
  await daemon.kill();
  await until(async () => reflector.status.connection.state === "disconnected");
  assert.ok(reflector.status.staleSince);
  assert.equal(reflector.snapshot().size, 1);
  await daemon.start();
  const { revision } = await client.create({ key: { collection: "lost", name: "b" } });
  const snapshot = await reflector.waitForRevision(revision, { timeout: 10_000 });
  assert.deepEqual([...snapshot.keys()], ["/a", "/b"]);
  assert.equal(reflector.status.initialStates, 1);
  assert.equal(reflector.status.staleSince, undefined);
  await reflector.close();
  const notices = [];
  for await (const notice of told) {
    notices.push(notice.type === "change" ? notice.key : notice.type);
  }
  assert.deepEqual(notices.sort(), ["/a", "/b", "synced"]);
});

test("a reflector goes on from what was saved", async () => {
  const selector = { collection: "saved" };
  await client.create({ key: { collection: "saved", name: "a" } });
  await using first = client.reflector(selector);
  const snapshot = await first.waitUntilReady();
  const { revision, resumeToken } = snapshot;
  assert.ok(resumeToken);
  await client.delete({ collection: "saved", name: "a" });
  const last = await client.create({ key: { collection: "saved", name: "b" } });
  await using second = client.reflector(selector, {
    restore: { objects: snapshot.values(), revision, resumeToken },
  });
  assert.deepEqual([...second.snapshot().keys()], ["/a"]);
  assert.ok(!second.status.ready);
  await second.waitForRevision(last.revision, { timeout: 10_000 });
  assert.deepEqual([...second.snapshot().keys()], ["/b"]);
  assert.equal(second.status.initialStates, 0);
  await using third = client.reflector(selector, {
    restore: { objects: [], revision: 1n, resumeToken: "rubbish" },
  });
  await third.waitUntilReady({ timeout: 10_000 });
  assert.equal(third.status.initialStates, 1);
});

test("a reflector whose watch is refused keeps its error", async () => {
  const reflector = client.reflector({ collection: "No Collection" });
  const isInvalid = (error: unknown) =>
    error instanceof ListwatchError && error.reason === "FIELD_INVALID";
  await assert.rejects(reflector.waitUntilReady(), isInvalid);
  await assert.rejects(reflector.waitForRevision(1n), isInvalid);
  await assert.rejects(reflector.subscribe().next(), isInvalid);
  assert.equal(reflector.snapshot().size, 0);
});

test("every call does what it says", async () => {
  const key = (name: string) => ({ collection: "calls", name });
  const value = new TextEncoder().encode("{}");
  const made = await client.create({ key: key("a"), value, labels: { app: "web" } });
  const changed = await client.update(
    { key: key("a"), value },
    { ifRevision: made.revision, ttl: 3_600_000 },
  );
  assert.ok(changed.expireTime);
  await assert.rejects(
    client.update({ key: key("a") }, { ifRevision: made.revision }),
    (error: ListwatchError) =>
      error.code === "ABORTED" &&
      error.reason === "REVISION_MISMATCH" &&
      error.metadata["revision"] === String(changed.revision),
  );
  const { revision, resources } = await client.batch([
    { create: { key: key("b"), value } },
    { update: { key: key("c"), value }, allowMissing: true },
    { check: key("d"), revision: 0n },
    { delete: key("a"), ifUid: made.uid },
  ]);
  assert.deepEqual(resources.map((resource) => resource.key?.name), ["b", "c", "d", "a"]);
  const pages = [];
  for await (const page of client.list({ collection: "calls" }, { pageSize: 1, view: View.KEY })) {
    pages.push(page.resources.map((resource) => resource.key?.name));
    assert.equal(page.revision, revision);
  }
  assert.deepEqual(pages, [["b"], ["c"]]);
  assert.equal(await client.delete(key("a"), { allowMissing: true }), undefined);
  assert.equal((await client.get(key("b"))).revision, revision);
  assert.ok((await client.status()).revision >= revision);
  assert.equal(await client.compact(revision, { wait: true }), revision);
});

test("an address that is none is refused", () => {
  for (const address of ["", "http://", "ftp://a", "a b"]) {
    assert.throws(() => connect(address), ListwatchError);
  }
});

test("any transport of Connect will do", async () => {
  const transport = createGrpcTransport({ baseUrl: `http://${daemon.address}` });
  assert.ok((await createClient(transport).status()).version);
});

test("a process that waits for nothing ends", async () => {
  const script = `
    import { connect } from ${JSON.stringify(new URL("dist/node.js", PACKAGE).href)};
    const client = connect(${JSON.stringify(daemon.address)});
    for await (const event of client.watch({ collection: "ends" })) {
      if (event.type === "initDone") break;
    }
    const reflector = client.reflector({ collection: "ends" });
    await reflector.waitUntilReady({ timeout: 60_000 });
    await reflector.close();
  `;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  const [code] = await once(child, "exit", { signal: AbortSignal.timeout(10_000) });
  assert.equal(code, 0);
});
