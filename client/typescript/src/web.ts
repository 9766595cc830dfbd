/**
 * For browsers (and whatever else has `fetch`): Listwatch over gRPC-web.
 *
 * @module
 */
import { Code, ConnectError } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";

import { createClient, type Client, type ClientOptions } from "./client.js";

export * from "./index.js";

/** Settings of {@link connect}. */
export interface ConnectOptions extends ClientOptions {
  /** Instead of the global `fetch`, as for credentials. */
  readonly fetch?: typeof globalThis.fetch;
}

/**
 * A client of the server at this URL, such as `https://listwatch.example`. The server must allow
 * the page's origin (`--cors-allowed-origins`). Nothing is sent before the first call.
 *
 * Browsers open six connections to a server that speaks HTTP/1.1, as every server does without
 * TLS: five watches at most, then. With HTTP/2 there is no such limit.
 */
export function connect(baseUrl: string, options: ConnectOptions = {}): Client {
  const send = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  const transport = createGrpcWebTransport({
    baseUrl,
    fetch: async (input, init) => {
      try {
        return await send(input, init);
      } catch (error) {
        throw error instanceof TypeError ? unreachable(error) : error;
      }
    },
  });
  return createClient(transport, options);
}

/** What `fetch` throws when no answer came, which Connect takes for UNKNOWN. */
function unreachable(error: TypeError): ConnectError {
  return new ConnectError(error.message, Code.Unavailable, undefined, undefined, error);
}
