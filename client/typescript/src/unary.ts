import { Backoff } from "./backoff.js";
import { ListwatchError, toListwatchError } from "./error.js";
import { sleep } from "./sleep.js";

/** First try included. What fails longer is the caller's decision. */
const MAX_ATTEMPTS = 4;

const BETWEEN_ATTEMPTS = { initial: 50, factor: 2, max: 1000 };

/** What one attempt is called with. */
export interface Attempt {
  /** What is left of the deadline, in milliseconds; the transport sends it as `grpc-timeout`. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

/**
 * Calls until there is an answer, an error that a retry does not cure, or the deadline. Right for
 * reads, and for writes with a request id: under it the server gives the first answer again.
 *
 * @param timeout of all attempts together, in milliseconds
 */
export async function unary<R>(
  timeout: number,
  signal: AbortSignal | undefined,
  call: (attempt: Attempt) => Promise<R>,
): Promise<R> {
  const deadline = performance.now() + timeout;
  const backoff = new Backoff(BETWEEN_ATTEMPTS);
  for (let attempt = 1; ; attempt += 1) {
    signal?.throwIfAborted();
    const timeoutMs = Math.max(1, Math.ceil(deadline - performance.now()));
    try {
      return await call({ timeoutMs, signal });
    } catch (rejection) {
      signal?.throwIfAborted();
      const error = toListwatchError(rejection);
      const delay = error.retryAfter ?? backoff.next();
      // Better the server's own words than a timeout that is already certain.
      const inTime = performance.now() + delay < deadline;
      if (!isCuredByTime(error) || attempt === MAX_ATTEMPTS || !inTime) {
        throw error;
      }
      await sleep(delay, signal);
    }
  }
}

function isCuredByTime(error: ListwatchError): boolean {
  return (
    error.code === "UNAVAILABLE" ||
    (error.code === "RESOURCE_EXHAUSTED" && error.retryAfter !== undefined)
  );
}
