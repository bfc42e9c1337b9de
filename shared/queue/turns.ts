import { jobOf, type QueueName } from "./queue-name.ts";

/** This part of the slots is only for jobs that hold none. */
const RESERVED_PART = 1 / 8;

/** So many calls in a row a queue may have in one slot while others wait for a slot: a change of queue costs a round trip. */
const CALLS_A_TURN = 8;

/**
 * The slots of a producer; each is a call in hand. A job that holds some takes another only if as many are free then as it holds,
 * and while more are free than the reserve. So a job whose calls hang gets no more than half of the slots, k such jobs together
 * leave one part of k + 1 free, and the reserve is for jobs that hold none: it lasts for as many jobs more that begin to hang one
 * after the other.
 */
function createSlots(slots: number) {
  const reserve = Math.floor(slots * RESERVED_PART);
  const used = new Map<string, number>();
  const waiting: (() => void)[] = [];
  let free = slots;

  return {
    mayTake(job: string): boolean {
      const own = used.get(job) ?? 0;
      return free > 0 && (own === 0 || (own + 2 <= free && free > reserve));
    },

    take(job: string): void {
      used.set(job, (used.get(job) ?? 0) + 1);
      free -= 1;
    },

    release(job: string): void {
      const left = (used.get(job) ?? 0) - 1;
      if (left > 0) used.set(job, left);
      else used.delete(job);
      free += 1;
      for (const resolve of waiting.splice(0)) resolve();
    },

    get free(): number {
      return free;
    },

    /** Resolves once a slot is free. */
    async untilFree(): Promise<void> {
      while (free === 0) await new Promise<void>((resolve) => waiting.push(resolve));
    },
  };
}

/**
 * Which queue may use the next free slot of a producer. Turns go round the queues that may have calls; a queue without calls
 * costs nothing. The queues of a job share its part of the slots. `isClosed` says of a job that its calls cannot be delivered
 * now.
 */
export function createTurns(count: number, isClosed: (job: string) => boolean) {
  const slots = createSlots(count);
  /** When each was last told of, by the count of all tellings. */
  const ready = new Map<QueueName, number>();
  let told = 0;
  const fetching = new Set<QueueName>();
  const inTurn = new Map<QueueName, number>();

  const mayTake = (job: string) => slots.mayTake(job) && !isClosed(job);

  /** Whether a fetch from this queue may begin now. */
  const isNext = (queue: QueueName) => !fetching.has(queue) && mayTake(jobOf(queue));

  /** Counts a call of the queue's turn. Answers whether the turn ends with it, because another queue waits for the slot. */
  function endTurn(queue: QueueName): boolean {
    if (ready.size < 2) return false;
    const calls = (inTurn.get(queue) ?? 0) + 1;
    inTurn.set(queue, calls % CALLS_A_TURN);
    if (calls < CALLS_A_TURN) return false;
    for (const other of ready.keys()) if (other !== queue && isNext(other)) return true;
    return false;
  }

  return {
    /** The queue may have calls. */
    add(queue: QueueName): void {
      told += 1;
      ready.set(queue, told);
    },

    /** How many tellings there were. */
    get told(): number {
      return told;
    },

    /** The queue had no call that may be taken, by a look that began after so many tellings. Those that came later count. */
    none(queue: QueueName, toldBefore: number): void {
      if ((ready.get(queue) ?? 0) > toldBefore) return;
      ready.delete(queue);
      inTurn.delete(queue);
    },

    /** Whether another call of this queue can be taken now. */
    isWanted: (queue: QueueName) => mayTake(jobOf(queue)),

    /** Takes a slot for the queue whose turn it is. It is fetched from until `fetched`. */
    next(): QueueName | undefined {
      if (slots.free === 0) return undefined;
      for (const [queue, toldAt] of ready) {
        if (!isNext(queue)) continue;
        ready.delete(queue);
        ready.set(queue, toldAt);
        fetching.add(queue);
        slots.take(jobOf(queue));
        return queue;
      }
      return undefined;
    },

    /** A fetch has ended. */
    fetched: (queue: QueueName) => void fetching.delete(queue),

    /** A call of this queue has ended. Whether the queue keeps the slot for its next call. */
    keepsSlot(queue: QueueName): boolean {
      const job = jobOf(queue);
      slots.release(job);
      const keeps = mayTake(job) && !endTurn(queue);
      slots.take(job);
      return keeps;
    },

    release: (queue: QueueName) => slots.release(jobOf(queue)),

    /** Whether any slot is free. */
    get hasRoom(): boolean {
      return slots.free > 0;
    },

    untilRoom: slots.untilFree,
  };
}
