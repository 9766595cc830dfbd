import { ConnectError } from "@connectrpc/connect";

import { milliseconds } from "./duration.js";
import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { ErrorReason } from "./gen/listwatch/v1/listwatch_pb.js";
import { statusCode, type StatusCode } from "./status-code.js";

/** `ErrorInfo.domain` of the errors that are Listwatch's own. */
const ERROR_DOMAIN = "listwatch";

/** The machine-readable reasons of Listwatch's errors: the names of the enum `ErrorReason`. */
export type Reason = Exclude<keyof typeof ErrorReason, "UNSPECIFIED">;

/** What a {@link ListwatchError} is made of. */
export interface Failure {
  readonly code: StatusCode;
  readonly message: string;
  readonly reason?: Reason | "" | (string & {});
  readonly metadata?: Readonly<Record<string, string>>;
  /** In milliseconds. */
  readonly retryAfter?: number | undefined;
  readonly cause?: unknown;
}

/**
 * The error of every call of this package.
 *
 * `code` says what kind of failure it is, `reason` which of Listwatch's own. A call that its
 * caller cancels by an `AbortSignal` rejects with the signal's reason instead.
 */
export class ListwatchError extends Error {
  override readonly name: string = "ListwatchError";
  /** The gRPC code. A connection that breaks off or does not come about is `UNAVAILABLE`. */
  readonly code: StatusCode;
  /**
   * `ErrorInfo.reason`, such as `REVISION_COMPACTED`; empty where the error is not Listwatch's
   * own but a proxy's or the transport's. May be one that this package does not know.
   */
  readonly reason: Reason | "" | (string & {});
  /** `ErrorInfo.metadata`: which keys there are says the comment on each `ErrorReason`. */
  readonly metadata: Readonly<Record<string, string>>;
  /** How many milliseconds the server asks to wait before a retry, if it does. */
  readonly retryAfter: number | undefined;

  constructor(failure: Failure) {
    super(failure.message, { cause: failure.cause });
    this.code = failure.code;
    this.reason = failure.reason ?? "";
    this.metadata = failure.metadata ?? {};
    this.retryAfter = failure.retryAfter;
  }

  /**
   * Whether the same request may succeed later with nothing changed but time. Of a write only
   * under the same request id, which the calls of this package keep.
   */
  get isRetryable(): boolean {
    switch (this.code) {
      case "UNAVAILABLE":
      case "DEADLINE_EXCEEDED":
        return true;
      case "RESOURCE_EXHAUSTED":
        return this.retryAfter !== undefined;
      case "OUT_OF_RANGE":
        return this.reason === "REVISION_IN_FUTURE";
      default:
        return false;
    }
  }
}

/** The server did what the API does not allow, or is no Listwatch server. */
export function protocolError(problem: string): ListwatchError {
  return new ListwatchError({
    code: "INTERNAL",
    message: `the server broke the protocol: ${problem}`,
  });
}

/** What a call was rejected with, as this package's error. */
export function toListwatchError(rejection: unknown): ListwatchError {
  if (rejection instanceof ListwatchError) {
    return rejection;
  }
  const error = ConnectError.from(rejection);
  const info = error.findDetails(ErrorInfoSchema).find((info) => info.domain === ERROR_DOMAIN);
  const retry = error.findDetails(RetryInfoSchema)[0];
  return new ListwatchError({
    code: statusCode(error.code),
    message: error.rawMessage,
    reason: info?.reason ?? "",
    metadata: info?.metadata ?? {},
    retryAfter: retry?.retryDelay && milliseconds(retry.retryDelay),
    cause: error,
  });
}
