// Does what the conformance runner asks, with the web client in a headless Chromium. Lines pass
// between the runner and the page; calls go through a proxy, since the runner's scripted server
// speaks no gRPC-web. Needs `npm run build`.

import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { openPage } from "./browser.mjs";
import { startProxy } from "./grpc-web-proxy.mjs";

const module = fileURLToPath(new URL("page.mjs", import.meta.url));
const { page, load, close } = await openPage(module, (page) =>
  page.exposeFunction("tell", (line) => void process.stdout.write(`${line}\n`)),
);
await load();

const proxies = new Map();

/** One after the other, so that commands keep their order. */
async function passOn(command) {
  if (command.do === "connect") {
    if (!proxies.has(command.address)) {
      proxies.set(command.address, await startProxy(command.address));
    }
    command.address = proxies.get(command.address);
  }
  await page.evaluate((command) => globalThis.carryOut(command), command);
}

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() !== "") {
    await passOn(JSON.parse(line));
  }
}
await close();
process.exit();
