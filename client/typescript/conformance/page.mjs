// The page of the browser's agent: the web client, and the conversation with the runner.

import * as package_ from "listwatch/web";

import { conversation } from "./conversation.mjs";

const { carryOut } = conversation(package_.connect, package_, (line) =>
  globalThis.tell(JSON.stringify(line)),
);
globalThis.carryOut = (command) => void carryOut(command);
