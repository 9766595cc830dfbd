// Takes gRPC-web of any origin and speaks native gRPC with the runner's scripted server, which
// knows nothing else. A connection that breaks is broken on the other side too.

import { createServer } from "node:http";
import { connect, constants } from "node:http2";

const CORS = {
  "access-control-allow-origin": "*",
  "access-control-allow-headers": "*",
  "access-control-max-age": "600",
  "access-control-expose-headers": "grpc-status, grpc-message, grpc-status-details-bin",
};

/** Starts a proxy for `host:port` and gives its URL. */
export async function startProxy(target) {
  let session;
  const server = createServer((request, response) => {
    if (request.method === "OPTIONS") {
      response.writeHead(204, CORS).end();
      return;
    }
    if (session === undefined || session.closed || session.destroyed) {
      const opened = connect(`http://${target}`);
      opened.on("error", () => {});
      // A server that says GOAWAY gets no more calls here.
      opened.on("goaway", () => session === opened && (session = undefined));
      session = opened;
    }
    relay(session, request, response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${server.address().port}`;
}

function relay(session, request, response) {
  const headers = {
    ":method": "POST",
    ":path": request.url,
    "content-type": "application/grpc",
    te: "trailers",
  };
  if (request.headers["grpc-timeout"] !== undefined) {
    headers["grpc-timeout"] = request.headers["grpc-timeout"];
  }
  const call = session.request(headers);
  let trailers;
  call.on("error", () => {});
  call.on("response", (answer) => {
    response.writeHead(200, { ...CORS, "content-type": "application/grpc-web+proto" });
    response.flushHeaders();
    if (answer["grpc-status"] !== undefined) {
      trailers = answer;
    }
  });
  call.on("trailers", (got) => (trailers = got));
  call.on("close", () => {
    if (trailers === undefined) {
      response.destroy();
    } else {
      response.end(trailerFrame(trailers));
    }
  });
  call.pipe(response, { end: false });
  request.pipe(call);
  response.on("close", () => call.close(constants.NGHTTP2_CANCEL));
}

function trailerFrame(trailers) {
  const names = ["grpc-status", "grpc-message", "grpc-status-details-bin"];
  const lines = names
    .filter((name) => trailers[name] !== undefined)
    .map((name) => `${name}: ${trailers[name]}\r\n`);
  const text = Buffer.from(lines.join(""));
  const frame = Buffer.alloc(5);
  frame.writeUInt8(0x80, 0);
  frame.writeUInt32BE(text.length, 1);
  return Buffer.concat([frame, text]);
}
