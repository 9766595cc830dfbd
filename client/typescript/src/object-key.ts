import type { Key } from "./gen/listwatch/v1/listwatch_pb.js";

/** A key within a collection: `namespace/name`, or `/name` for objects outside any namespace. */
export type ObjectKey = `${string}/${string}`;

/** The namespace and the name of an object. */
export interface NamespacedName {
  readonly namespace?: string;
  readonly name: string;
}

/** The key of an object within its collection, as text. No name holds a `/`. */
export function objectKey(key: NamespacedName | Key): ObjectKey {
  return `${key.namespace ?? ""}/${key.name}`;
}
