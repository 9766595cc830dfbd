import {
  createClient as createConnectClient,
  type Client as ConnectClient,
  type Transport,
} from "@connectrpc/connect";

import {
  batchOperation,
  ttlField,
  type BatchOperation,
  type KeyInit,
  type ResourceInit,
} from "./batch.js";
import { protocolError } from "./error.js";
import {
  AdminService,
  ListWatchService,
  type BatchResponse,
  type GetResponse,
  type GetStatusResponse,
  type Resource,
  type View,
} from "./gen/listwatch/v1/listwatch_pb.js";
import { Pages } from "./list.js";
import { Reflector, type ReflectorOptions } from "./reflector/reflector.js";
import { randomRequestId } from "./request-id.js";
import { unary, type Attempt } from "./unary.js";
import {
  settingsOf,
  type ConsistencyInit,
  type SelectorInit,
  type WatchOptions,
} from "./watcher/options.js";
import { Watcher, type CallWatch } from "./watcher/watcher.js";

/** How long a unary call may take in all, retries included, in milliseconds. */
export const DEFAULT_REQUEST_TIMEOUT = 30_000;

/** Settings of a {@link Client}. */
export interface ClientOptions {
  /**
   * How long a unary call may take in all, its retries included, in milliseconds. Streams have no
   * such limit: a watch has its own, in {@link WatchOptions}.
   * Default: {@link DEFAULT_REQUEST_TIMEOUT}.
   */
  readonly requestTimeout?: number;
}

/** Settings of one call. */
export interface CallOptions {
  /** Instead of the client's {@link ClientOptions.requestTimeout}. */
  readonly timeout?: number;
  /** Cancels the call, which then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Settings of a read. */
export interface ReadOptions extends CallOptions {
  /** How much of each object to send. Default: all. */
  readonly view?: View;
  /** Default: linearizable. */
  readonly consistency?: ConsistencyInit;
}

/** Settings of a list. */
export interface ListOptions extends ReadOptions {
  /** At most this many objects a page. Default: the server's. */
  readonly pageSize?: number;
}

/** Settings of a write. */
export interface WriteOptions extends CallOptions {
  /**
   * Under the same id the server does a write once and repeats its answer. Default: a random one
   * for each call, which its retries keep. Up to 128 bytes.
   */
  readonly requestId?: string;
}

/** Settings of {@link Client.create}. */
export interface CreateOptions extends WriteOptions {
  /** After how many milliseconds the object expires by itself. */
  readonly ttl?: number;
}

/** Settings of {@link Client.update}. */
export interface UpdateOptions extends CreateOptions {
  /** Writes only over this revision. Default: whatever the revision. */
  readonly ifRevision?: bigint;
  /** Creates the object if it is absent; not with `ifRevision`. */
  readonly allowMissing?: boolean;
}

/** Settings of {@link Client.delete}. */
export interface DeleteOptions extends WriteOptions {
  /** Deletes only this revision. */
  readonly ifRevision?: bigint;
  /** Deletes only the object of this uid. */
  readonly ifUid?: string;
  /** An absent object is no error: the answer is `undefined`. */
  readonly allowMissing?: boolean;
}

/** Settings of {@link Client.compact}. */
export interface CompactOptions extends CallOptions {
  /** Answer only when the space has been given back. */
  readonly wait?: boolean;
}

/**
 * The calls of a Listwatch server. Made by `connect` of `listwatch/node` or `listwatch/web`, or
 * over any transport by {@link createClient}.
 *
 * Every method rejects with a {@link ListwatchError}. Unary calls are tried up to four times
 * within their timeout when the server is unavailable or asks to try again. Writes too: each has
 * a request id under which the server does it once and repeats its answer.
 */
export class Client {
  readonly #service: ConnectClient<typeof ListWatchService>;
  readonly #admin: ConnectClient<typeof AdminService>;
  readonly #requestTimeout: number;

  /** Use {@link createClient}. */
  constructor(transport: Transport, options: ClientOptions) {
    this.#service = createConnectClient(ListWatchService, transport);
    this.#admin = createConnectClient(AdminService, transport);
    this.#requestTimeout = options.requestTimeout ?? DEFAULT_REQUEST_TIMEOUT;
  }

  /**
   * Reads one object, and names the revision at which it was read.
   *
   * @throws ListwatchError `NOT_FOUND` if it is absent
   */
  async get(
    key: KeyInit,
    options: ReadOptions = {},
  ): Promise<{ resource: Resource; revision: bigint }> {
    const { resource, revision }: GetResponse = await this.#unary(options, (attempt) =>
      this.#service.get({ key, ...readFields(options) }, attempt),
    );
    return { resource: present(resource), revision };
  }

  /**
   * Reads what a selector matches: `for await (const page of client.list({ collection }))`, or
   * `await client.list({ collection }).collect()`. The timeout is that of each page.
   */
  list(selector: SelectorInit, options: ListOptions = {}): Pages {
    const { pageSize = 0 } = options;
    const request = { selector, pageSize, ...readFields(options) };
    return new Pages(
      (page) => this.#unary(options, (attempt) => this.#service.list(page, attempt)),
      request,
    );
  }

  /**
   * Writes a new object, and gives it back without its value.
   *
   * @throws ListwatchError `ALREADY_EXISTS` if the key is taken
   */
  async create(resource: ResourceInit, options: CreateOptions = {}): Promise<Resource> {
    const request = { resource, ...ttlField(options.ttl), requestId: requestId(options) };
    const response = await this.#unary(options, (attempt) =>
      this.#service.create(request, attempt),
    );
    return present(response.resource);
  }

  /**
   * Replaces an object, and gives it back without its value.
   *
   * @throws ListwatchError `ABORTED` if `ifRevision` is not the object's revision, `NOT_FOUND` if
   * it is absent and `allowMissing` is not set
   */
  async update(resource: ResourceInit, options: UpdateOptions = {}): Promise<Resource> {
    const { ttl, ifRevision, allowMissing = false } = options;
    const request = {
      resource,
      allowMissing,
      ...(ifRevision !== undefined && { ifRevision }),
      ...ttlField(ttl),
      requestId: requestId(options),
    };
    const response = await this.#unary(options, (attempt) =>
      this.#service.update(request, attempt),
    );
    return present(response.resource);
  }

  /**
   * Deletes an object, and gives back the state that was deleted, with the revision of the
   * deletion; `undefined` if it was absent and `allowMissing` is set.
   *
   * @throws ListwatchError `ABORTED` if `ifRevision` or `ifUid` does not hold, `NOT_FOUND` if it is
   * absent and `allowMissing` is not set
   */
  async delete(key: KeyInit, options: DeleteOptions = {}): Promise<Resource | undefined> {
    const { ifRevision, ifUid, allowMissing = false } = options;
    const request = {
      key,
      allowMissing,
      ...(ifRevision !== undefined && { ifRevision }),
      ...(ifUid !== undefined && { ifUid }),
      requestId: requestId(options),
    };
    const response = await this.#unary(options, (attempt) =>
      this.#service.delete(request, attempt),
    );
    return response.resource;
  }

  /**
   * Applies several writes at one revision, all or none.
   *
   * @throws ListwatchError that of the first operation which cannot be done; then none was
   */
  batch(
    operations: readonly BatchOperation[],
    options: WriteOptions = {},
  ): Promise<BatchResponse> {
    const request = {
      operations: operations.map(batchOperation),
      requestId: requestId(options),
    };
    return this.#unary(options, (attempt) => this.#service.batch(request, attempt));
  }

  /**
   * Drops history before a revision, and gives back where history begins now.
   *
   * @throws ListwatchError `OUT_OF_RANGE` if the revision is above the newest one
   */
  async compact(revision: bigint, options: CompactOptions = {}): Promise<bigint> {
    const { wait = false } = options;
    const response = await this.#unary(options, (attempt) =>
      this.#admin.compact({ revision, wait }, attempt),
    );
    return response.compactRevision;
  }

  /** Revisions, sizes, limits and watch counts of the server. */
  status(options: CallOptions = {}): Promise<GetStatusResponse> {
    return this.#unary(options, (attempt) => this.#admin.getStatus({}, attempt));
  }

  /**
   * Watches what a selector matches until closed: reconnects, resumes, starts over.
   * `for await (const event of client.watch({ collection: "pods" }))`.
   */
  watch(selector: SelectorInit, options: WatchOptions = {}): Watcher {
    const settings = settingsOf(selector, options, false);
    const { start = "initialState", consistency, signal } = options;
    return new Watcher(this.#watch, settings, start, consistency, signal);
  }

  /** Keeps a copy of what a selector matches until closed. */
  reflector(selector: SelectorInit, options: ReflectorOptions = {}): Reflector {
    const { restore, consistency, signal } = options;
    const settings = settingsOf(selector, options, true);
    const start = restore === undefined ? "initialState" : { resumeToken: restore.resumeToken };
    const watcher = new Watcher(this.#watch, settings, start, consistency, signal);
    return new Reflector(watcher, restore);
  }

  readonly #watch: CallWatch = (request, signal) =>
    // Without a deadline, also where the transport has one by default.
    this.#service.watch(request, { signal, timeoutMs: 0 });

  #unary<R>(
    options: CallOptions,
    call: (attempt: { timeoutMs: number; signal?: AbortSignal }) => Promise<R>,
  ): Promise<R> {
    const timeout = options.timeout ?? this.#requestTimeout;
    return unary(timeout, options.signal, ({ timeoutMs, signal }: Attempt) =>
      call(signal === undefined ? { timeoutMs } : { timeoutMs, signal }),
    );
  }
}

/**
 * A client over any transport of Connect that speaks gRPC or gRPC-web to a Listwatch server.
 * `connect` of `listwatch/node` and `listwatch/web` make the usual ones.
 */
export function createClient(transport: Transport, options: ClientOptions = {}): Client {
  return new Client(transport, options);
}

function readFields({ view, consistency }: ReadOptions) {
  return {
    ...(view !== undefined && { view }),
    ...(consistency !== undefined && { consistency }),
  };
}

function requestId(options: WriteOptions): string {
  return options.requestId ?? randomRequestId();
}

function present(resource: Resource | undefined): Resource {
  if (resource === undefined) {
    throw protocolError("an answer without its object");
  }
  return resource;
}
