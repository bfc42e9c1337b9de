/** This part of the slots is only for jobs that hold none. */
const RESERVED_PART = 1 / 8;

/**
 * The slots of a producer; each is a call in hand. A job that holds some takes another only if as many are free then as it holds,
 * and while more are free than the reserve. So a job whose calls hang gets no more than half of the slots, k such jobs together
 * leave one part of k + 1 free, and the reserve is for jobs that hold none: it lasts for as many jobs more that begin to hang one
 * after the other.
 */
export function createSlots(slots: number) {
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

    /** Resolves once a slot is released. */
    untilReleased: () => new Promise<void>((resolve) => void waiting.push(resolve)),
  };
}

/**
 * The room for stored calls, in bytes. Half of it is for the slots: each holds a call of its part at once, so a small call waits for
 * no other. The other half is for larger calls, one after the other: a job that holds some of it takes more only if as much is free
 * then as it holds. A call that is larger than that half takes all of it.
 */
export function createRoom(bytes: number, slots: number) {
  const ofSlot = Math.floor(bytes / 2 / slots);
  const forLarge = bytes - ofSlot * slots;
  const used = new Map<string, number>();
  let free = forLarge;

  return {
    ofSlot,

    mayTake(job: string, size: number): boolean {
      const [own, needed] = [used.get(job) ?? 0, Math.min(size, forLarge)];
      return needed <= free && (own === 0 || own + needed <= free - needed);
    },

    /** Whether a job that holds none of it would have to wait. */
    isShort: (size: number) => Math.min(size, forLarge) > free,

    take(job: string, size: number): void {
      const needed = Math.min(size, forLarge);
      used.set(job, (used.get(job) ?? 0) + needed);
      free -= needed;
    },

    release(job: string, size: number): void {
      const needed = Math.min(size, forLarge);
      const left = (used.get(job) ?? 0) - needed;
      if (left > 0) used.set(job, left);
      else used.delete(job);
      free += needed;
    },
  };
}
