export type Look = {
  /** Looks, or once more when the look under way is over. */
  now(): void;
  stop(): void;
};

/**
 * Runs one look at a call at a time, and one more if something has changed meanwhile; and again after so long if it has shown nothing, which
 * it says by false.
 */
export function createLook(look: () => Promise<boolean>, againMs: number): Look {
  let isLooking = false;
  let isToLookAgain = false;
  let isStopped = false;
  let again: NodeJS.Timeout | undefined;

  async function run(): Promise<void> {
    isToLookAgain = isLooking;
    if (isLooking || isStopped) return;
    clearTimeout(again);
    isLooking = true;
    const isDone = await look();
    isLooking = false;
    if (isStopped) return;
    if (!isDone) again = setTimeout(now, againMs);
    else if (isToLookAgain) await run();
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
