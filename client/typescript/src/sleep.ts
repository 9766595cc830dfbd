/** `setTimeout` takes what is longer for nothing at all. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** A timer of so many milliseconds, as long as they may be. */
export function startTimer(milliseconds: number, act: () => void): ReturnType<typeof setTimeout> {
  return setTimeout(act, Math.min(milliseconds, LONGEST_TIMER));
}

/**
 * Waits. Its timer keeps a Node process alive, since someone waits for it, and is gone as soon as
 * the signal is aborted.
 *
 * @throws the signal's reason, when it is aborted
 */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const end = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = startTimer(milliseconds, () => {
      signal?.removeEventListener("abort", end);
      resolve();
    });
    signal?.addEventListener("abort", end, { once: true });
  });
}
