/**
 * The core: everything but the connection, which `listwatch/node` and `listwatch/web` add.
 *
 * @module
 */
export {
  DEFAULT_BACKOFF,
  type BackoffOptions,
  type Randomness,
} from "./backoff.js";
export type { BatchOperation, KeyInit, ResourceInit } from "./batch.js";
export {
  Client,
  createClient,
  DEFAULT_REQUEST_TIMEOUT,
  type CallOptions,
  type ClientOptions,
  type CompactOptions,
  type CreateOptions,
  type DeleteOptions,
  type ListOptions,
  type ReadOptions,
  type UpdateOptions,
  type WriteOptions,
} from "./client.js";
export { ListwatchError, type Reason } from "./error.js";
export {
  CatchUp,
  DeleteCause,
  DeliveryMode,
  LabelOperator,
  View,
  type Key,
  type Resource,
  type Selector,
} from "./gen/listwatch/v1/listwatch_pb.js";
/** The messages and services of the API, as they are generated. */
export * as v1 from "./gen/listwatch/v1/listwatch_pb.js";
export type { Listing, Pages } from "./list.js";
export { objectKey, type NamespacedName, type ObjectKey } from "./object-key.js";
export type {
  Reflector,
  ReflectorOptions,
  SavedState,
  WaitOptions,
} from "./reflector/reflector.js";
export type { Snapshot } from "./reflector/snapshot.js";
export {
  ReflectorClosedError,
  WaitTimeoutError,
  type Connection,
  type ReflectorStatus,
} from "./reflector/status.js";
export type { Notice, Subscription } from "./reflector/subscription.js";
export type { StatusCode } from "./status-code.js";
export {
  WatchEndedError,
  type Change,
  type Disconnect,
  type Point,
  type WatchEvent,
} from "./watcher/event.js";
export type {
  ConsistencyInit,
  SelectorInit,
  Start,
  WatchOptions,
} from "./watcher/options.js";
export type { Watcher } from "./watcher/watcher.js";
