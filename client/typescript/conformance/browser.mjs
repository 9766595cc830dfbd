// A headless Chromium with a page that runs a bundled module, served from an origin of its own.

import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { build } from "esbuild";
import { chromium } from "playwright-core";

const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/**
 * Opens a page that runs `module` (a file's path), after `prepare` has had it to itself. The
 * browser is `CHROMIUM`, or /usr/bin/chromium.
 */
export async function openPage(module, prepare = async () => {}) {
  const bundle = await build({
    entryPoints: [module],
    bundle: true,
    format: "esm",
    platform: "browser",
    write: false,
  });
  const script = bundle.outputFiles[0].contents;
  const server = createServer((request, response) => {
    if (request.url === "/module.js") {
      response.setHeader("content-type", "text/javascript").end(script);
    } else {
      response.setHeader("content-type", "text/html");
      response.end('<!doctype html><script type="module" src="/module.js"></script>');
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${server.address().port}`;

  const profile = await mkdtemp(join(tmpdir(), "listwatch-chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: ARGUMENTS,
  });
  const page = await context.newPage();
  page.on("pageerror", (error) => console.error(`in the page: ${error.stack ?? error}`));
  await prepare(page);

  return {
    page,
    origin,
    scriptBytes: script.length,
    load: () => page.goto(origin),
    async close() {
      await context.close();
      server.close();
      server.closeAllConnections();
      await rm(profile, { recursive: true, force: true });
    },
  };
}
