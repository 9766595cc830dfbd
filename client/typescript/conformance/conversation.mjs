// What the agent does for each command, whatever connects it to its server and its runner.

import { fromJson, toJson } from "@bufbuild/protobuf";

/**
 * @param connect gives a client for an address, as `listwatch/node` and `listwatch/web` do
 * @param package_ what that entry exports
 * @param tell takes one object, which is a line
 */
export function conversation(connect, package_, tell) {
  const { v1, ListwatchError, WaitTimeoutError, WatchEndedError } = package_;
  let client;
  const watches = new Map();
  const reflectors = new Map();

  const message = (schema, json) => fromJson(schema, json ?? {}, { ignoreUnknownFields: true });
  // protobuf-es takes seconds to put 20 MB into base64.
  const json = ({ value, ...resource }) => ({
    ...toJson(v1.ResourceSchema, { ...resource, value: new Uint8Array() }),
    ...(value.length > 0 && { value: base64(value) }),
  });
  const selectorOf = (command) => message(v1.SelectorSchema, command.selector);

  function enumOf(schema, name) {
    const value = schema.values.find((value) => value.name === name);
    if (value === undefined) {
      throw new Error(`${schema.name} has no ${name}`);
    }
    return value.number;
  }

  function optionsOf(options = {}) {
    const start = options.start ?? {};
    const given = {
      start:
        start.resume_token !== undefined
          ? { resumeToken: start.resume_token }
          : start.after_revision !== undefined
            ? { afterRevision: BigInt(start.after_revision) }
            : start.now
              ? "now"
              : undefined,
      view: options.view && enumOf(v1.ViewSchema, options.view),
      deliveryMode: options.delivery_mode && enumOf(v1.DeliveryModeSchema, options.delivery_mode),
      catchUp: options.catch_up && enumOf(v1.CatchUpSchema, options.catch_up),
      sendPrevious: options.send_previous,
      bookmarkInterval: options.bookmark_interval,
      firstResponseTimeout: options.first_response_timeout,
      progressTimeout: options.progress_timeout,
      backoff: options.backoff,
      random: options.jitter === undefined ? undefined : () => options.jitter,
      onExpired: { start_over: "startOver", fail: "fail" }[options.on_expired],
    };
    return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  }

  function errorLine(error) {
    if (error instanceof WaitTimeoutError) {
      return { ...NO_DETAILS, code: "TIMEOUT", message: error.message };
    }
    if (error instanceof ListwatchError) {
      const { code, reason, message, metadata, retryAfter } = error;
      return { code, reason, message, metadata, retry_after: retryAfter ?? null };
    }
    return { ...NO_DETAILS, code: "UNKNOWN", message: String(error?.stack ?? error) };
  }

  function eventLine(event) {
    const line = { event: EVENTS[event.type] };
    if (event.object !== undefined) {
      line.object = json(event.object);
    }
    if (event.previous !== undefined) {
      line.previous = json(event.previous);
    }
    if (event.change !== undefined) {
      line.change = event.change;
    }
    if (event.type === "delete") {
      line.cause = nameOf(v1.DeleteCauseSchema, event.cause);
    }
    if (event.point !== undefined) {
      line.revision = Number(event.point.revision);
      line.resume_token = event.point.resumeToken;
      line.latest_revision = Number(event.point.latestRevision);
    }
    if (event.type === "disconnected") {
      line.cause = CAUSES[event.cause.kind];
      line.retry_in = event.retryIn;
      if (event.cause.kind === "error") {
        line.error = errorLine(event.cause.error);
      }
    }
    return line;
  }

  const nameOf = (schema, number) =>
    schema.values.find((value) => value.number === number)?.name ?? String(number);

  async function follow(name, watch) {
    try {
      for (;;) {
        await watch.unpaused;
        const { done, value } = await watch.watcher.next();
        // What was asked for before the pause waits for its end.
        await watch.unpaused;
        if (done) {
          break;
        }
        tell({ watch: name, ...eventLine(value) });
      }
      tell({ watch: name, ended: "closed", error: null });
    } catch (error) {
      const ended = error instanceof WatchEndedError ? error.outcome : "refused";
      tell({ watch: name, ended, error: errorLine(error) });
    } finally {
      if (watches.get(name) === watch) {
        watches.delete(name);
      }
    }
  }

  async function tellChanges(name, reflector) {
    const version = (object) =>
      object === undefined ? null : { uid: object.uid, revision: Number(object.revision) };
    try {
      for await (const notice of reflector.subscribe()) {
        if (notice.type === "synced") {
          tell({ reflector: name, synced: true });
          continue;
        }
        const { key, old } = notice;
        tell({
          reflector: name,
          change: { key, old: version(old), new: version(notice.new) },
        });
      }
    } catch {
      // `state` tells what stopped it.
    }
  }

  function state(reflector) {
    const { ready, staleSince, connection } = reflector.status;
    const snapshot = reflector.snapshot();
    const objects = {};
    for (const [key, object] of snapshot) {
      objects[key] = Number(object.revision);
    }
    const stopped = connection.state === "stopped" && connection.error !== undefined;
    return {
      ready,
      stale: staleSince !== undefined,
      revision: Number(snapshot.revision),
      objects,
      stopped: stopped ? errorLine(connection.error) : null,
    };
  }

  const reflectorOf = ({ name }) => {
    const reflector = reflectors.get(name);
    if (reflector === undefined) {
      throw new Error(`no reflector ${name}`);
    }
    return reflector;
  };
  const revisionOf = (command) =>
    command.if_revision === undefined ? {} : { ifRevision: BigInt(command.if_revision) };

  const commands = {
    connect({ address, request_timeout: requestTimeout }) {
      client = connect(address, requestTimeout === undefined ? {} : { requestTimeout });
      return {};
    },
    async create(command) {
      const resource = message(v1.ResourceSchema, command.resource);
      return { resource: json(await client.create(resource)) };
    },
    async update(command) {
      const resource = message(v1.ResourceSchema, command.resource);
      const allowMissing = command.allow_missing ?? false;
      const options = { allowMissing, ...revisionOf(command) };
      return { resource: json(await client.update(resource, options)) };
    },
    async delete(command) {
      const key = message(v1.KeySchema, command.key);
      return { resource: json(await client.delete(key, revisionOf(command))) };
    },
    async get(command) {
      const { resource, revision } = await client.get(message(v1.KeySchema, command.key));
      return { resource: json(resource), revision: Number(revision) };
    },
    async list(command) {
      const pageSize = command.page_size ?? 0;
      const listing = await client.list(selectorOf(command), { pageSize }).collect();
      return {
        resources: listing.resources.map(json),
        revision: Number(listing.revision),
        resume_token: listing.resumeToken,
      };
    },
    watch(command) {
      const watcher = client.watch(selectorOf(command), optionsOf(command.options));
      const watch = { watcher, unpaused: Promise.resolve(), unpause: () => {} };
      watches.set(command.name, watch);
      void follow(command.name, watch);
      return {};
    },
    pause({ name }) {
      const watch = watches.get(name);
      watch.unpaused = new Promise((resolve) => (watch.unpause = resolve));
      return {};
    },
    resume({ name }) {
      watches.get(name).unpause();
      return {};
    },
    reflect(command) {
      const { start: _, onExpired: __, ...options } = optionsOf(command.options);
      const reflector = client.reflector(selectorOf(command), options);
      reflectors.set(command.name, reflector);
      void tellChanges(command.name, reflector);
      return {};
    },
    state(command) {
      return state(reflectorOf(command));
    },
    async wait_until_ready(command) {
      const reflector = reflectorOf(command);
      await reflector.waitUntilReady({ timeout: command.timeout });
      return state(reflector);
    },
    async wait_for_revision(command) {
      const reflector = reflectorOf(command);
      await reflector.waitForRevision(BigInt(command.revision), { timeout: command.timeout });
      return state(reflector);
    },
    async close({ name }) {
      const watch = watches.get(name);
      watch?.unpause();
      watch?.watcher.close();
      await reflectors.get(name)?.close();
      return {};
    },
  };

  /** Carries out one command, and tells its answer. */
  async function carryOut(command) {
    try {
      tell({ id: command.id, ok: await commands[command.do](command) });
    } catch (error) {
      tell({ id: command.id, error: errorLine(error) });
    }
  }

  function closeAll() {
    for (const { watcher } of watches.values()) {
      watcher.close();
    }
    for (const reflector of reflectors.values()) {
      void reflector.close();
    }
  }

  return { carryOut, closeAll };
}

function base64(bytes) {
  if (globalThis.Buffer !== undefined) {
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
  }
  let text = "";
  // A multiple of three, so that the pieces join without padding between them.
  for (let at = 0; at < bytes.length; at += 0x6000) {
    text += btoa(String.fromCharCode(...bytes.subarray(at, at + 0x6000)));
  }
  return text;
}

const NO_DETAILS = { reason: "", metadata: {}, retry_after: null };

const EVENTS = {
  initBegin: "init_begin",
  initApply: "init_apply",
  initDone: "init_done",
  resumed: "resumed",
  netBegin: "net_begin",
  manifestBegin: "manifest_begin",
  caughtUp: "caught_up",
  apply: "apply",
  delete: "delete",
  unchanged: "unchanged",
  bookmark: "bookmark",
  disconnected: "disconnected",
};

const CAUSES = {
  ended: "ended",
  goingAway: "going_away",
  silent: "silent",
  noResponse: "no_response",
  noProgress: "no_progress",
  restarted: "restarted",
  error: "error",
};
