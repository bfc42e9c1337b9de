/** A bulkhead is stuck when it is full and nothing has left it for this long. */
const STUCK_MS = 1000;

type Bulkhead = { under: number; stuck: boolean; waiting: (() => void)[] };

/**
 * Work by what it depends on: as much of each bulkhead at a time as there are slots. A full bulkhead is waited for as long as it
 * moves; one that is stuck holds nobody up, so that what hangs is felt in its own bulkhead only.
 */
export function createBulkheads({ slots }: { slots: number }) {
  const bulkheads = new Map<string, Bulkhead>();
  const underWay = new Map<string, Promise<void>>();

  function bulkheadOf(name: string): Bulkhead {
    const bulkhead = bulkheads.get(name) ?? { under: 0, stuck: false, waiting: [] };
    bulkheads.set(name, bulkhead);
    return bulkhead;
  }

  /** Whether there is a slot; waits for one while the bulkhead moves. */
  async function hasRoom(bulkhead: Bulkhead): Promise<boolean> {
    if (bulkhead.under >= slots && !bulkhead.stuck) bulkhead.stuck = !(await leftInTime(bulkhead));
    return bulkhead.under < slots;
  }

  async function run(bulkhead: Bulkhead, work: () => Promise<void>): Promise<void> {
    bulkhead.under += 1;
    await work();
    bulkhead.under -= 1;
    bulkhead.stuck = false;
    for (const wake of bulkhead.waiting.splice(0)) wake();
  }

  return {
    isUnderWay: (id: string) => underWay.has(id),

    /** Begins the work, which never rejects; false, and nothing is done, where its bulkhead is stuck. */
    async begin(id: string, name: string, work: () => Promise<void>): Promise<boolean> {
      const bulkhead = bulkheadOf(name);
      if (!(await hasRoom(bulkhead))) return false;
      const running = run(bulkhead, work).finally(() => underWay.delete(id));
      underWay.set(id, running);
      return true;
    },

    /** Once all that was begun has ended. */
    async idle(): Promise<void> {
      await Promise.all(underWay.values());
    },
  };
}

function leftInTime({ waiting }: Bulkhead): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), STUCK_MS);
    waiting.push(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}
