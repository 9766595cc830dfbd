import type { ListwatchError } from "../error.js";

/**
 * What an error means for a watcher.
 *
 * - `resume`: go on from the same position, after backoff or after what the server says.
 * - `ahead`: the position is ahead of the server. It may be a replica that is behind, so try the
 *   same position again, but not for ever: it may be another history.
 * - `startOver`: the position is worth nothing any more.
 * - `dataLoss`: the same, and no position is known to be better.
 * - `unexplained`: the same, but for no reason that is known: another start may meet the same.
 * - `badToken`: the token is not one of this server and selector.
 * - `refused`: no retry helps.
 */
export type Verdict =
  | "resume"
  | "ahead"
  | "startOver"
  | "dataLoss"
  | "unexplained"
  | "badToken"
  | "refused";

/** Judges an error that a stream ended with, or that kept it from being opened. */
export function verdict(error: ListwatchError): Verdict {
  switch (error.code) {
    case "CANCELLED":
    case "UNKNOWN":
    case "DEADLINE_EXCEEDED":
    case "ABORTED":
    case "INTERNAL":
    case "UNAVAILABLE":
      return "resume";
    case "RESOURCE_EXHAUSTED":
      return error.retryAfter === undefined ? "refused" : "resume";
    case "OUT_OF_RANGE":
      switch (error.reason) {
        case "REVISION_COMPACTED":
        case "STORE_CHANGED":
          return "startOver";
        case "REVISION_IN_FUTURE":
          return "ahead";
        default:
          return "unexplained";
      }
    case "DATA_LOSS":
      return "dataLoss";
    case "INVALID_ARGUMENT":
      return error.reason === "TOKEN_INVALID" ? "badToken" : "refused";
    case "NOT_FOUND":
    case "ALREADY_EXISTS":
    case "PERMISSION_DENIED":
    case "UNAUTHENTICATED":
    case "FAILED_PRECONDITION":
    case "UNIMPLEMENTED":
      return "refused";
  }
}
