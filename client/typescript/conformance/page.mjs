// The page of the browser's agent: the web client, and the conversation with the runner.

import * as package_ from "listwatch/web";

import { conversation } from "./conversation.mjs";

const { carryOut } = conversation(package_.connect, package_, (line) => {
  // What the agent has answered by itself has no id any more.
  if (line.id !== null) {
    globalThis.tell(JSON.stringify(line));
  }
});
globalThis.carryOut = (command) => void carryOut(command);
