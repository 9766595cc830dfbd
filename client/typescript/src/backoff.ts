/** Gives numbers of [0, 1]. From outside, so that tests decide. */
export type Randomness = () => number;

/** The bounds of a {@link Backoff}. */
export interface BackoffOptions {
  /** The longest first delay, in milliseconds. */
  readonly initial: number;
  /** By how much the longest delay grows from one failure to the next. */
  readonly factor: number;
  /** The longest delay of all, in milliseconds. */
  readonly max: number;
}

/** 800 ms, doubled up to 30 s: the numbers of Kubernetes' reflectors. */
export const DEFAULT_BACKOFF: BackoffOptions = { initial: 800, factor: 2, max: 30_000 };

/**
 * Exponential backoff with full jitter: each delay is drawn evenly between nothing and a bound
 * that grows with each failure, so that clients that failed together do not come back together.
 */
export class Backoff {
  readonly #options: BackoffOptions;
  readonly #random: Randomness;
  #bound: number;

  constructor(options: BackoffOptions = DEFAULT_BACKOFF, random: Randomness = Math.random) {
    this.#options = options;
    this.#random = random;
    this.#bound = Math.min(options.initial, options.max);
  }

  /** The delay after one more failure, in milliseconds. */
  next(): number {
    const delay = this.jittered(this.#bound);
    this.#bound = Math.min(this.#bound * Math.max(this.#options.factor, 1), this.#options.max);
    return delay;
  }

  /** Something between nothing and `bound`, without counting a failure. */
  jittered(bound: number): number {
    return bound * Math.min(Math.max(this.#random(), 0), 1);
  }

  /** Back to the first delay. */
  reset(): void {
    this.#bound = Math.min(this.#options.initial, this.#options.max);
  }
}
