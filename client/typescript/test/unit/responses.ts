import { create } from "@bufbuild/protobuf";

import {
  BookmarkKind,
  EventType,
  ResourceSchema,
  WatchResponseSchema,
  type Resource,
  type WatchResponse,
} from "../../src/gen/listwatch/v1/listwatch_pb.js";

/** `pod("a", 7)`: an object of no namespace, of the uid `u-a`. */
export function pod(name: string, revision: number, uid = `u-${name}`): Resource {
  return create(ResourceSchema, {
    key: { collection: "pods", namespace: "", name },
    uid,
    revision: BigInt(revision),
  });
}

export type Events = [keyof typeof EventType, Resource][];

/** A response of these events and, if a kind is named, a bookmark with the token `tREVISION`. */
export function response(
  events: Events,
  kind?: keyof typeof BookmarkKind,
  revision = 0,
): WatchResponse {
  return create(WatchResponseSchema, {
    events: events.map(([type, resource]) => ({ type: EventType[type], resource })),
    ...(kind !== undefined && {
      bookmark: {
        kind: BookmarkKind[kind],
        revision: BigInt(revision),
        latestRevision: BigInt(revision),
        resumeToken: `t${revision}`,
      },
    }),
  });
}
