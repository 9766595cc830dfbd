import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";

import { connect, v1 } from "../../src/node.js";

/** The folder of this package. */
export const PACKAGE = new URL("../../../", import.meta.url);

/** The server: LISTWATCHD, or what `cargo build` left. */
const BINARY =
  process.env["LISTWATCHD"] ??
  fileURLToPath(new URL("../../target/debug/listwatchd", PACKAGE));

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** A running server process over a folder of its own. */
export class Daemon implements AsyncDisposable {
  readonly address: string;
  readonly #folder: string;
  readonly #flags: readonly string[];
  #process: ChildProcess | undefined;

  private constructor(address: string, folder: string, flags: readonly string[]) {
    this.address = address;
    this.#folder = folder;
    this.#flags = flags;
  }

  /** Starts a server and waits until it answers. */
  static async start(...flags: string[]): Promise<Daemon> {
    const folder = await mkdtemp(join(tmpdir(), "listwatch-ts-"));
    const daemon = new Daemon(`127.0.0.1:${await freePort()}`, folder, flags);
    await daemon.start();
    return daemon;
  }

  /** Starts it again, over what it stored. */
  async start(): Promise<void> {
    const data = join(this.#folder, "data");
    const flags = ["--listen", this.address, "--data-dir", data, ...this.#flags];
    this.#process = spawn(BINARY, flags, { stdio: "ignore" });
    const failed = once(this.#process, "error").then(([error]) => Promise.reject(error as Error));
    await Promise.race([failed, this.#answers()]);
  }

  /** The open watches of a collection, as the server sees them. */
  async openWatches(collection: string): Promise<v1.OpenWatch[]> {
    const transport = createGrpcTransport({ baseUrl: `http://${this.address}` });
    return (await createClient(v1.AdminService, transport).listWatches({ collection })).watches;
  }

  /** Stops it as a power cut would. */
  async kill(): Promise<void> {
    const process = this.#process;
    this.#process = undefined;
    if (process?.exitCode === null) {
      process.kill("SIGKILL");
      await once(process, "exit");
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await rm(this.#folder, { recursive: true });
  }

  async #answers(): Promise<void> {
    const client = connect(this.address);
    for (;;) {
      try {
        await client.status();
        return;
      } catch {
        await sleep(20);
      }
    }
  }
}
