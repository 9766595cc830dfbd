import type { MessageInitShape } from "@bufbuild/protobuf";

import { duration } from "./duration.js";
import type {
  BatchOperationSchema,
  KeySchema,
  ResourceSchema,
} from "./gen/listwatch/v1/listwatch_pb.js";

/** The key of an object: `{ collection: "pods", namespace: "web", name: "a" }`. */
export type KeyInit = MessageInitShape<typeof KeySchema>;

/** An object to write. What the server sets by itself is ignored. */
export type ResourceInit = MessageInitShape<typeof ResourceSchema>;

/** One operation of a batch. */
export type BatchOperation =
  /** Writes a new object; the batch fails with `ALREADY_EXISTS` if the key is taken. */
  | { readonly create: ResourceInit; readonly ttl?: number }
  /** Replaces an object. */
  | {
      readonly update: ResourceInit;
      readonly ifRevision?: bigint;
      readonly allowMissing?: boolean;
      readonly ttl?: number;
    }
  /** Deletes an object. */
  | {
      readonly delete: KeyInit;
      readonly ifRevision?: bigint;
      readonly ifUid?: string;
      readonly allowMissing?: boolean;
    }
  /** Writes nothing; fails the batch unless the object is at this revision (0: absent). */
  | { readonly check: KeyInit; readonly revision: bigint };

/** A lifetime in milliseconds, as a field of a request. */
export function ttlField(ttl: number | undefined) {
  return ttl === undefined ? {} : { ttl: duration(ttl) };
}

/** The operation as the API has it. */
export function batchOperation(
  operation: BatchOperation,
): MessageInitShape<typeof BatchOperationSchema> {
  if ("create" in operation) {
    const { create: resource, ttl } = operation;
    return { kind: { case: "create", value: { resource, ...ttlField(ttl) } } };
  }
  if ("update" in operation) {
    const { update: resource, ttl, ...conditions } = operation;
    return { kind: { case: "update", value: { resource, ...conditions, ...ttlField(ttl) } } };
  }
  if ("delete" in operation) {
    const { delete: key, ...conditions } = operation;
    return { kind: { case: "delete", value: { key, ...conditions } } };
  }
  const { check: key, revision } = operation;
  return { kind: { case: "check", value: { key, revision } } };
}
