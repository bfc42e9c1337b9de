export type CheckLoop = {
  /** Checks now, or again after the running check has ended. */
  now(): void;
  stop(): void;
};

/**
 * Runs at most one check of a call at a time. If `now` is called while a check runs, another check follows it. A check that
 * resolves with false has failed, and is repeated after `againMs`.
 */
export function createCheckLoop(check: () => Promise<boolean>, againMs: number): CheckLoop {
  let isChecking = false;
  let mustCheckAgain = false;
  let isStopped = false;
  let again: NodeJS.Timeout | undefined;

  async function run(): Promise<void> {
    mustCheckAgain = isChecking;
    if (isChecking || isStopped) return;
    clearTimeout(again);
    isChecking = true;
    const isDone = await check();
    isChecking = false;
    if (isStopped) return;
    if (!isDone) again = setTimeout(now, againMs);
    else if (mustCheckAgain) await run();
  }

  const now = (): void => void run();
  return {
    now,
    stop() {
      isStopped = true;
      clearTimeout(again);
    },
  };
}
