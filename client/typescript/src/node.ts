/**
 * For Node: Listwatch over gRPC.
 *
 * @module
 */
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";

import { createClient, type Client, type ClientOptions } from "./client.js";
import { ListwatchError } from "./error.js";
import { Connections } from "./connections.js";
import { VERSION } from "./version.js";

export * from "./index.js";

/**
 * Largest response, in bytes, that is accepted. A watch response can hold a whole batch of large
 * objects (1.5 MiB each by default).
 */
export const DEFAULT_MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

/** Settings of {@link connect}. Times are in milliseconds. */
export interface ConnectOptions extends ClientOptions {
  /** How long a connection may take to come about. Default: 10 s. */
  readonly connectTimeout?: number;
  /**
   * How often the server is pinged while calls are open and nothing comes. `Infinity`: never, for
   * servers that punish it; a watch notices a dead connection by the silence anyway.
   * Default: 30 s.
   */
  readonly keepaliveInterval?: number;
  /** How long a ping may stay unanswered before the connection is given up. Default: 20 s. */
  readonly keepaliveTimeout?: number;
  /** Largest response that is accepted. Default: {@link DEFAULT_MAX_MESSAGE_BYTES}. */
  readonly maxMessageBytes?: number;
}

/**
 * A client of the server at `host:port`, `http://host:port` or `https://host:port`. Nothing is
 * sent before the first call. An idle connection does not keep the process alive.
 *
 * @throws ListwatchError `INVALID_ARGUMENT` if the address is none
 */
export function connect(address: string, options: ConnectOptions = {}): Client {
  const url = parseAddress(address);
  const transport = createGrpcTransport({
    baseUrl: url.origin,
    sessionManager: new Connections(url, {
      connectTimeout: options.connectTimeout ?? 10_000,
      keepaliveInterval: options.keepaliveInterval ?? 30_000,
      keepaliveTimeout: options.keepaliveTimeout ?? 20_000,
    }),
    readMaxBytes: options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE_BYTES,
    acceptCompression: [],
    interceptors: [introduce, nameLostConnections],
  });
  return createClient(transport, options);
}

const introduce: Interceptor = (next) => (request) => {
  const transport = request.header.get("user-agent");
  const name = `listwatch-typescript/${VERSION}`;
  request.header.set("user-agent", transport === null ? name : `${name} ${transport}`);
  return next(request);
};

/**
 * gRPC calls a connection that breaks off UNAVAILABLE; Node's errors come as a medley of codes,
 * among them ABORTED, which is Listwatch's conflict. Only for unary calls: a watch resumes after
 * any of them.
 */
const nameLostConnections: Interceptor = (next) => async (request) => {
  try {
    return await next(request);
  } catch (rejection) {
    const error = ConnectError.from(rejection);
    const byTransport = error.cause instanceof Error && "code" in error.cause;
    const reset = error.code === Code.Canceled && !request.signal.aborted;
    if (!request.stream && (byTransport || reset)) {
      throw new ConnectError(error.rawMessage, Code.Unavailable, undefined, undefined, error);
    }
    throw rejection;
  }
};

function parseAddress(address: string): URL {
  const text = address.includes("://") ? address : `http://${address}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol) || url.hostname === "") {
    throw new ListwatchError({
      code: "INVALID_ARGUMENT",
      message: `${JSON.stringify(address)} is no host:port or http(s)://host:port`,
    });
  }
  return url;
}
