import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Daemon, PACKAGE } from "./daemon.js";

test("the README's quickstart prints what the README says", async () => {
  const readme = await readFile(new URL("README.md", PACKAGE), "utf8");
  const [, program, output] = /```js\n(.*?)```\n\n((?: {4}.*\n)+)/s.exec(readme) ?? [];
  assert.ok(program && output);
  assert.ok(program.trim().split("\n").length <= 20);
  // Within the package, so that `listwatch/node` is this one.
  const file = fileURLToPath(new URL("build/quickstart.mjs", PACKAGE));
  await writeFile(file, program);
  await using daemon = await Daemon.start();
  const { stdout } = await promisify(execFile)(process.execPath, [file], {
    env: { ...process.env, LISTWATCH_ADDRESS: daemon.address },
    timeout: 20_000,
  });
  assert.equal(stdout, output.replace(/^ {4}/gm, ""));
});
