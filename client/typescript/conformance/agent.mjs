// Does what the conformance runner asks, with the Node client: ../../conformance/README.md.
// Needs `npm run build`.

import { createInterface } from "node:readline";

import * as package_ from "../dist/node.js";
import { conversation } from "./conversation.mjs";

const { carryOut, closeAll } = conversation(package_.connect, package_, (line) => {
  process.stdout.write(`${JSON.stringify(line)}\n`);
});

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() !== "") {
    void carryOut(JSON.parse(line));
  }
}
closeAll();
