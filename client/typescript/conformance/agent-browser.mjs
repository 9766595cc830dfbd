// Does what the conformance runner asks, with the web client in a headless Chromium. Lines pass
// between the runner and the page; calls go through a proxy, since the runner's scripted server
// speaks no gRPC-web. Needs `npm run build`.

import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { openPage } from "./browser.mjs";
import { startProxy } from "./grpc-web-proxy.mjs";

const tell = (line) => void process.stdout.write(`${line}\n`);
const module = fileURLToPath(new URL("page.mjs", import.meta.url));
const opening = openPage(module, (page) => page.exposeFunction("tell", tell)).then(
  async (browser) => {
    await browser.load();
    return browser;
  },
);
const proxies = new Map();

/** What the page is to be told in place of `connect`. */
async function throughProxy(command) {
  const { address } = command;
  if (!proxies.has(address)) {
    proxies.set(address, await startProxy(address));
  }
  // Answered here: no connection needs to come about, and a browser takes its time to start.
  tell(JSON.stringify({ id: command.id, ok: {} }));
  return { ...command, id: null, address: proxies.get(address) };
}

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === "") {
    continue;
  }
  const given = JSON.parse(line);
  const command = given.do === "connect" ? await throughProxy(given) : given;
  // One after the other, so that they keep their order.
  const { page } = await opening;
  await page.evaluate((command) => globalThis.carryOut(command), command);
}
const { close } = await opening;
await close();
process.exit();
