import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Daemon } from "../../build/test/server/daemon.js";
import { openPage } from "../../conformance/browser.mjs";
import { connect } from "../../dist/node.js";

let daemon;
let browser;
let client;

before(async () => {
  browser = await openPage(fileURLToPath(new URL("page.mjs", import.meta.url)));
  daemon = await Daemon.start("--cors-allowed-origins", browser.origin);
  client = connect(daemon.address);
  await browser.load();
});

after(async () => {
  await browser?.close();
  await daemon?.[Symbol.asyncDispose]();
});

/** Runs `act` in the page, with a client of the server. */
async function inPage(act, argument) {
  return browser.page.evaluate(
    async ([text, address, argument]) => {
      globalThis.client ??= globalThis.listwatch.connect(`http://${address}`);
      const act = (0, eval)(`(${text})`);
      return act(globalThis.client, argument);
    },
    [act.toString(), daemon.address, argument],
  );
}

test("a page of another origin reads and writes, and sees the server's reasons", async () => {
  const seen = await inPage(async (client) => {
    const value = new TextEncoder().encode("from a page");
    await client.create({ key: { collection: "notes", name: "a" }, value });
    const { resources } = await client.list({ collection: "notes" }).collect();
    const error = await client.get({ collection: "notes", name: "b" }).catch((error) => error);
    const texts = resources.map((resource) => new TextDecoder().decode(resource.value));
    return { texts, code: error.code, reason: error.reason, name: error.metadata.name };
  });
  assert.deepEqual(seen, {
    texts: ["from a page"],
    code: "NOT_FOUND",
    reason: "OBJECT_NOT_FOUND",
    name: "b",
  });
});

test("a page lists, watches, loses the server and resumes", async () => {
  const selector = { collection: "pods" };
  await client.create({ key: { ...selector, name: "a" } });
  await inPage(async (client, selector) => {
    globalThis.seen = [];
    globalThis.watcher = client.watch(selector, { backoff: { initial: 100, max: 100 } });
    void (async () => {
      for await (const event of globalThis.watcher) {
        const name = event.object?.key.name;
        globalThis.seen.push(name === undefined ? event.type : `${event.type} ${name}`);
      }
      globalThis.seen.push("closed");
    })();
  }, selector);
  const sees = (line) =>
    browser.page.waitForFunction((line) => globalThis.seen.includes(line), line, {
      timeout: 20_000,
    });

  await sees("initDone");
  await client.create({ key: { ...selector, name: "b" } });
  await sees("apply b");
  await daemon.kill();
  await sees("disconnected");
  await daemon.start();
  await client.create({ key: { ...selector, name: "c" } });
  await sees("apply c");
  await inPage(() => globalThis.watcher.close());
  await sees("closed");

  const seen = await inPage(() => globalThis.seen);
  const told = seen.filter((line) => !["bookmark", "disconnected", "resumed"].includes(line));
  assert.deepEqual(told, ["initBegin", "initApply a", "initDone", "apply b", "apply c", "closed"]);
  assert.ok(seen.includes("resumed"));
});

test("a page keeps a copy", async () => {
  const names = await inPage(async (client) => {
    const reflector = client.reflector({ collection: "copied" });
    await reflector.waitUntilReady({ timeout: 10_000 });
    const { revision } = await client.create({ key: { collection: "copied", name: "a" } });
    const snapshot = await reflector.waitForRevision(revision, { timeout: 10_000 });
    await reflector.close();
    return [...snapshot.keys()];
  });
  assert.deepEqual(names, ["/a"]);
});

test("a page that does not read is not sent to", async () => {
  const selector = { collection: "heavy" };
  await inPage(async (client, selector) => {
    globalThis.heavy = client.watch(selector);
    while ((await globalThis.heavy.next()).value.type !== "initDone");
  }, selector);
  const value = new Uint8Array(1_000_000).fill(120);
  for (let i = 0; i < 60; i += 1) {
    await client.create({ key: { ...selector, name: `n${i}` }, value });
  }
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const [watch] = await daemon.openWatches("heavy");
  // What the browser's buffers and the kernel's hold.
  assert.ok(watch.sentBytes < 30_000_000n, `sent ${watch.sentBytes} bytes`);
  const names = await inPage(async () => {
    const names = [];
    while (names.length < 60) {
      const { value } = await globalThis.heavy.next();
      if (value.type === "apply") names.push(value.object.key.name);
    }
    globalThis.heavy.close();
    return names;
  });
  assert.deepEqual(names, Array.from({ length: 60 }, (_, i) => `n${i}`));
});

test("a server that does not allow the origin, or is not there, is unavailable", async () => {
  const other = await Daemon.start();
  const codes = await inPage(async (_, addresses) => {
    const failures = addresses.map((address) =>
      globalThis.listwatch
        .connect(`http://${address}`, { requestTimeout: 100 })
        .status()
        .catch((error) => error.code),
    );
    return Promise.all(failures);
  }, [other.address, "127.0.0.1:1"]);
  await other[Symbol.asyncDispose]();
  assert.deepEqual(codes, ["UNAVAILABLE", "UNAVAILABLE"]);
});
