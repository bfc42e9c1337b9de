/** A lane is stuck when it is full and nothing has left it for this long. */
const STUCK_MS = 1000;

type Lane = { under: number; stuck: boolean; waiting: (() => void)[] };

/**
 * Work by what it depends on: as much of each lane at a time as there are slots. A full lane is waited for as long as it
 * moves; one that is stuck holds nobody up, so that what hangs is felt in its own lane only.
 */
export function createLanes({ slots }: { slots: number }) {
  const lanes = new Map<string, Lane>();
  const underWay = new Map<string, Promise<void>>();

  function laneOf(name: string): Lane {
    const lane = lanes.get(name) ?? { under: 0, stuck: false, waiting: [] };
    lanes.set(name, lane);
    return lane;
  }

  /** Whether there is a slot; waits for one while the lane moves. */
  async function hasRoom(lane: Lane): Promise<boolean> {
    if (lane.under >= slots && !lane.stuck) lane.stuck = !(await leftInTime(lane));
    return lane.under < slots;
  }

  async function run(lane: Lane, work: () => Promise<void>): Promise<void> {
    lane.under += 1;
    await work();
    lane.under -= 1;
    lane.stuck = false;
    for (const wake of lane.waiting.splice(0)) wake();
  }

  return {
    isUnderWay: (id: string) => underWay.has(id),

    /** Begins the work, which never rejects; false, and nothing is done, where its lane is stuck. */
    async begin(id: string, name: string, work: () => Promise<void>): Promise<boolean> {
      const lane = laneOf(name);
      if (!(await hasRoom(lane))) return false;
      const running = run(lane, work).finally(() => underWay.delete(id));
      underWay.set(id, running);
      return true;
    },

    /** Once all that was begun has ended. */
    async idle(): Promise<void> {
      await Promise.all(underWay.values());
    },
  };
}

function leftInTime({ waiting }: Lane): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), STUCK_MS);
    waiting.push(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}
