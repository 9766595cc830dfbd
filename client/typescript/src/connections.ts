import type { ClientHttp2Stream, Http2Session, OutgoingHttpHeaders } from "node:http2";
import * as net from "node:net";
import * as tls from "node:tls";

import { Http2SessionManager } from "@connectrpc/connect-node";

/** What a stream may send before it is read. */
const STREAM_WINDOW_BYTES = 512 * 1024;
/**
 * What all streams of a connection may. Far above one stream's, since Node's own 64 KiB would
 * hold back a fast stream on a long way.
 */
const CONNECTION_WINDOW_BYTES = 64 * 1024 * 1024;

/** All in milliseconds. */
export interface ConnectionOptions {
  readonly connectTimeout: number;
  readonly keepaliveInterval: number;
  readonly keepaliveTimeout: number;
}

/**
 * The HTTP/2 connection of a client: Connect's session manager, with windows that are large
 * enough and a limit on how long connecting takes. (Without one, a server that does not answer
 * at all holds up every call for the minutes that the operating system tries.)
 */
export class Connections {
  readonly authority: string;
  readonly #sessions: Http2SessionManager;
  readonly #seen = new WeakSet<Http2Session>();

  constructor(url: URL, options: ConnectionOptions) {
    this.authority = url.origin;
    const pings = {
      pingIntervalMs: options.keepaliveInterval,
      pingTimeoutMs: options.keepaliveTimeout,
    };
    this.#sessions = new Http2SessionManager(url.origin, pings, {
      settings: { initialWindowSize: STREAM_WINDOW_BYTES, enablePush: false },
      createConnection: () => open(url, options.connectTimeout),
    });
  }

  async request(
    method: string,
    path: string,
    headers: OutgoingHttpHeaders,
    options: object,
  ): Promise<ClientHttp2Stream> {
    const stream = await this.#sessions.request(method, path, headers, options);
    const { session } = stream;
    if (session !== undefined && !this.#seen.has(session)) {
      this.#seen.add(session);
      session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    }
    return stream;
  }

  notifyResponseByteRead(stream: ClientHttp2Stream): void {
    this.#sessions.notifyResponseByteRead(stream);
  }
}

function open(url: URL, timeout: number): net.Socket {
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const secure = url.protocol === "https:";
  const port = Number(url.port || (secure ? 443 : 80));
  const socket = secure
    ? tls.connect({ host, port, servername: net.isIP(host) ? "" : host, ALPNProtocols: ["h2"] })
    : net.connect({ host, port });
  socket.setNoDelay(true);
  const timer = setTimeout(() => {
    const late = new Error(`no connection to ${url.host} within ${timeout} ms`);
    socket.destroy(Object.assign(late, { code: "ETIMEDOUT" }));
  }, timeout);
  const stop = () => clearTimeout(timer);
  socket.once(secure ? "secureConnect" : "connect", stop);
  socket.once("close", stop);
  return socket;
}
