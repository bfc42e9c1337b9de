import { CALLBACKS_GATE, receiverOfGate } from "../../../shared/queue/queue-name.ts";

/** This part of the slots is only for jobs that hold none. */
const RESERVED_PART = 1 / 8;

/**
 * The slots of a producer; each is a call in hand or a fetch under way. A job that holds some takes another only if as many are free
 * then as it holds, and while more are free than the reserve. So a job whose calls hang gets no more than half of the slots. If the
 * calls of k jobs begin to hang together, these jobs leave one part of k + 1 free; if one after the other, they leave the reserve.
 * The reserve is for jobs that hold none: it lasts for as many more jobs as it has slots.
 *
 * All callbacks together are like one job, and of half of the slots their receivers hold parts by the same rule. So receivers that hang,
 * and strangers may name any number of them, leave the jobs what one job that hangs would leave.
 */
export function createSlots(slots: number) {
  const reserve = Math.floor(slots * RESERVED_PART);
  const all = createShares(slots);
  const ofReceivers = createShares(Math.max(1, Math.floor(slots / 2)));
  const waiting: (() => void)[] = [];

  function take(gate: string, amount: number): void {
    all.take(groupOf(gate), amount);
    if (isOfReceiver(gate)) ofReceivers.take(gate, amount);
  }

  return {
    mayTake(gate: string): boolean {
      if (!mayHaveMore(all, groupOf(gate), reserve)) return false;
      return !isOfReceiver(gate) || mayHaveMore(ofReceivers, gate, 0);
    },

    take: (gate: string) => take(gate, 1),

    release(gate: string): void {
      take(gate, -1);
      for (const resolve of waiting.splice(0)) resolve();
    },

    free: all.free,

    /** How many a job, or a receiver, holds. */
    of: (gate: string) => (isOfReceiver(gate) ? ofReceivers.of(gate) : all.of(gate)),

    /** Resolves once a slot is released. */
    untilReleased: () => new Promise<void>((resolve) => void waiting.push(resolve)),
  };
}

function mayHaveMore(shares: Shares, name: string, reserve: number): boolean {
  const [own, free] = [shares.of(name), shares.free()];
  return free > 0 && (own === 0 || (own + 2 <= free && free > reserve));
}

function isOfReceiver(gate: string): boolean {
  return receiverOfGate(gate) !== undefined;
}

/** However many receivers there are, together they are one among the jobs. */
function groupOf(gate: string): string {
  return isOfReceiver(gate) ? CALLBACKS_GATE : gate;
}

/**
 * The room for stored calls, in bytes. Half of it is for the slots: each holds a call of its part at once, so a small call waits for
 * no room. The other half is for larger calls, one after the other: a job that holds some of it takes more only if as much is free
 * then as it holds. A call that is larger than that half takes all of it.
 */
export function createRoom(bytes: number, slots: number) {
  const ofSlot = Math.floor(bytes / 2 / slots);
  const forLarge = bytes - ofSlot * slots;
  const shares = createShares(forLarge);
  const needed = (size: number) => Math.min(size, forLarge);

  return {
    ofSlot,

    mayTake(job: string, size: number): boolean {
      const [own, free] = [shares.of(job), shares.free()];
      return needed(size) <= free && (own === 0 || own + needed(size) <= free - needed(size));
    },

    /** Whether a job that holds none of it would have to wait. */
    isShort: (size: number) => needed(size) > shares.free(),

    take: (job: string, size: number) => shares.take(job, needed(size)),
    release: (job: string, size: number) => shares.release(job, needed(size)),
  };
}

type Shares = ReturnType<typeof createShares>;

/** How much of something each job holds, and how much is free. */
function createShares(total: number) {
  const held = new Map<string, number>();
  let free = total;

  const of = (job: string): number => held.get(job) ?? 0;
  function take(job: string, amount: number): void {
    const now = of(job) + amount;
    if (now > 0) held.set(job, now);
    else held.delete(job);
    free -= amount;
  }
  return { of, free: () => free, take, release: (job: string, amount: number) => take(job, -amount) };
}
