import { CALLBACKS_GATE, receiverOfGate } from "../../../shared/queue/queue-name.ts";

/** Fraction of the slots that is reserved for jobs that hold none. */
const RESERVED_PART = 1 / 8;

/**
 * Divides the slots of a producer among jobs, so that jobs whose calls hang leave slots for others. A call in flight or
 * a fetch uses a slot.
 *
 * A job that holds no slot may take any free one. A job that already holds slots may take another only if at least as many
 * slots stay free afterwards as the job then holds. It may also not use the reserve, an eighth of the slots. So a job whose
 * calls hang gets at most half of the slots. If the calls of k jobs begin to hang together, they leave one of k + 1 equal
 * parts free. If the jobs begin to hang one after the other, only the reserve stays free. Each further job then gets one slot
 * from the reserve.
 *
 * All callbacks together count as one job. Receivers share half of the slots by the same rule. Clients may name any
 * number of receivers. Even if all of them hang, together they take at most the slots of one job that hangs.
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

    /** Returns the number of slots that a job or a receiver holds. */
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

/** Returns the name under which the slots of a gate are counted. All receivers are counted together, like one job. */
function groupOf(gate: string): string {
  return isOfReceiver(gate) ? CALLBACKS_GATE : gate;
}

/**
 * Creates the memory budget for stored calls, in bytes. One half is divided equally among the slots, so a call that fits a
 * slot's share never waits for memory. The other half is for larger calls. A job that already uses part of the second half
 * gets more only if at least as much of it stays free as the job then uses. A call that is larger than the second half takes
 * all of it.
 */
export function createMemoryBudget(bytes: number, slots: number) {
  const bytesPerSlot = Math.floor(bytes / 2 / slots);
  const forLarge = bytes - bytesPerSlot * slots;
  const shares = createShares(forLarge);
  const needed = (size: number) => Math.min(size, forLarge);

  return {
    bytesPerSlot,

    mayTake(job: string, size: number): boolean {
      const [own, free] = [shares.of(job), shares.free()];
      return needed(size) <= free && (own === 0 || own + needed(size) <= free - needed(size));
    },

    /** Returns whether a call of this size must wait even if its job uses none of the budget. */
    exceedsFree: (size: number) => needed(size) > shares.free(),

    take: (job: string, size: number) => shares.take(job, needed(size)),
    release: (job: string, size: number) => shares.release(job, needed(size)),
  };
}

type Shares = ReturnType<typeof createShares>;

/** Counts how much of a resource each job holds, and how much is free. */
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
