import { create, type MessageInitShape } from "@bufbuild/protobuf";

import { ListwatchError, protocolError } from "./error.js";
import {
  ListRequestSchema,
  type ListRequest,
  type ListResponse,
  type Resource,
} from "./gen/listwatch/v1/listwatch_pb.js";

/**
 * How often {@link Pages.collect} starts over. A list that expires again and again is slower than
 * the server's retention, and no number of attempts changes that.
 */
const MAX_RESTARTS = 3;

/** A whole list. */
export interface Listing {
  /** Ordered by namespace and name. */
  readonly resources: Resource[];
  /** The one revision that all of them show. */
  readonly revision: bigint;
  /** Starts a watch of the same selector right after this list. */
  readonly resumeToken: string;
}

/** Reads one page. */
export type CallList = (request: ListRequest) => Promise<ListResponse>;

/**
 * Page after page of one snapshot of the store, each asked for when it is wanted. Made by
 * {@link Client.list}; every iteration reads anew from the first page.
 */
export class Pages implements AsyncIterable<ListResponse> {
  readonly #call: CallList;
  readonly #request: MessageInitShape<typeof ListRequestSchema>;

  /** Use {@link Client.list}. */
  constructor(call: CallList, request: MessageInitShape<typeof ListRequestSchema>) {
    this.#call = call;
    this.#request = request;
  }

  /**
   * The pages.
   *
   * @throws ListwatchError `OUT_OF_RANGE` when the list's revision was compacted between two pages.
   * What was given so far is of that revision; the rest of it cannot be had, and going on at
   * another would mix two states.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<ListResponse, void, undefined> {
    const request = create(ListRequestSchema, this.#request);
    for (;;) {
      const page = await this.#call(request);
      if (page.nextPageToken !== "" && page.nextPageToken === request.pageToken) {
        throw protocolError("a page's token leads to the same page");
      }
      yield page;
      if (page.nextPageToken === "") {
        return;
      }
      request.pageToken = page.nextPageToken;
    }
  }

  /** The objects of all pages, one by one. */
  async *resources(): AsyncGenerator<Resource, void, undefined> {
    for await (const page of this) {
      yield* page.resources;
    }
  }

  /**
   * All the objects at once. Starts over, up to three times, when the list expires between two
   * pages: nothing was given out yet.
   *
   * @throws ListwatchError `OUT_OF_RANGE` if it expires once more, or was asked for at one
   * revision
   */
  async collect(): Promise<Listing> {
    for (let restarts = 0; ; restarts += 1) {
      try {
        return await this.#collectOnce();
      } catch (error) {
        const expired = error instanceof ListwatchError && error.code === "OUT_OF_RANGE";
        // A request for one exact revision stays expired.
        if (!expired || restarts === MAX_RESTARTS || this.#request.consistency !== undefined) {
          throw error;
        }
      }
    }
  }

  async #collectOnce(): Promise<Listing> {
    const resources: Resource[] = [];
    let last: ListResponse | undefined;
    for await (const page of this) {
      for (const resource of page.resources) {
        resources.push(resource);
      }
      last = page;
    }
    const { revision = 0n, resumeToken = "" } = last ?? {};
    return { resources, revision, resumeToken };
  }
}
