import type { ResultLimits } from "../../../shared/call/results/result.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { delay, within } from "../../../shared/platform/time/clock.ts";
import type { FetchedCall } from "../../../shared/queue/backend.ts";
import type { QueueName } from "../../../shared/queue/queue-name.ts";
import type { Partitioned } from "../../../shared/redis/partition.ts";
import { createAlone } from "./alone.ts";
import { leaves, type Verdict } from "./finish.ts";
import type { Hold } from "./hold.ts";
import { createPermits } from "./permits.ts";
import { createStation, type ServedPartition, type SourceOf } from "./station.ts";
import { createTake, type TakeParts } from "./take.ts";
import { toHeld, toTaken } from "./taken.ts";
import { type Turn, Turns } from "./turns.ts";
import { stalledIntervalOf } from "./upkeep.ts";

export type ConsumeOptions = {
  /**
   * Partitions to take calls from. Partition 0 also has the data that is common to all partitions: the permits of jobs with
   * limits, and the name of the worker that takes a call alone.
   */
  served: Partitioned<ServedPartition>;
  /** Returns whether this worker takes calls from the queue. */
  serves: (queue: QueueName) => boolean;
  /** Returns true while calls of this gate cannot be delivered. This worker takes none of them then. */
  isClosed: (gate: string) => boolean;
  /** Maximum number of calls in flight, over all partitions. */
  slots: number;
  /** Limit on the stored size of all calls in flight together, in bytes. */
  bodyBudgetBytes: number;
  lockMs: number;
  results: ResultLimits;
  workerName: string;
  log: Logger;
  /**
   * Interval of the polls. They find calls that producers were not woken for, for example because a process died (upkeep.ts).
   */
  pollMs?: number | undefined;
  /** Time until an empty queue is removed from the registry. */
  emptyMs?: number | undefined;
};

export type Consumer = {
  /**
   * Resolves once calls are taken from at least one partition. Rejects if the first partition that answers must not be used,
   * for example because of wrong settings.
   */
  ready(): Promise<void>;
  /**
   * Takes calls with all free slots. The caller does this when calls of a job may have become deliverable, such as when a
   * runner is back.
   */
  refill(): void;
  /** Returns the number of calls in flight. */
  inFlight(): number;
  /** Stops taking new calls. Calls in flight continue. */
  stop(): void;
  /**
   * Stops taking new calls and waits for those in flight. After `graceMs`, injections that still run are aborted, and their
   * calls return to the queue.
   */
  close(graceMs: number): Promise<void>;
};

/** After injections were aborted, the worker waits at most this long until their calls are back in the queue. */
const RELEASE_MS = 1000;

/**
 * Takes calls from all queues in turn, and applies the verdict that `deliver` returns for each. It needs two connections for
 * each partition, however many queues there are. One, from connectForWork, sends the commands. The other waits in a blocking
 * command until Redis has the name of a queue with calls (listen.ts). The slots are shared by the queues of all partitions.
 */
export function consume(options: ConsumeOptions): Consumer {
  const { lockMs, workerName, log, results } = options;
  const { control } = options.served;
  const stalledInterval = stalledIntervalOf(lockMs);
  const work = { name: workerName, lockDuration: lockMs, stalledInterval, results };
  const stations = options.served.all.map((each) => createStation(each, { ...options, work }));
  const turns = new Turns<SourceOf>({
    slots: options.slots,
    bytes: options.bodyBudgetBytes,
    isClosed: ({ station, gate }) => !station.server.isUsable || options.isClosed(gate),
  });
  const alone = createAlone({ ...control, log }, workerName, lockMs);
  const wake = (index: number, queue: string): void => {
    const station = stations[index];
    if (station?.server.isUsable) station.announce.now([queue]).catch(() => {});
  };
  const permits = createPermits({ ...control, log }, { lockMs, wake });
  const { fill, ...working } = createWork(options, { stations, turns, alone, permits });
  const started = stations.map((station) => station.start(turns, fill));
  const ready = Promise.race(started);
  ready.catch(() => {});
  for (const [i, each] of started.entries())
    each.catch(() => ready.then(() => stations[i]?.startAgain()).catch(() => {}));
  const renew = (): void => {
    for (const { holds } of stations) holds.renew().catch(() => {});
    permits.renew().catch(() => {});
    if (turns.isAlone) alone.renew().catch(() => {});
  };
  const renewing = setInterval(renew, Math.max(250, lockMs / 4));
  // Only needed with several partitions. If the only partition is away, there are no other calls that could use the freed
  // slots.
  const freeing =
    stations.length > 1 ? setInterval(working.freeSlotsOfAwayPartitions, AWAY_CHECK_MS) : undefined;

  return {
    ready: () => ready,
    refill: fill,
    inFlight: working.inFlight,
    stop: () => void working.stop(),
    async close(graceMs) {
      const ended = working.stop();
      for (const station of stations) station.stop();
      if ((await within(graceMs, ended)).kind === "late") {
        for (const { holds } of stations) holds.loseAll("the producer is stopping");
        await within(RELEASE_MS, ended);
      }
      clearInterval(renewing);
      clearInterval(freeing);
    },
  };
}

/** Interval of the checks for slots that wait for a partition that is away. */
const AWAY_CHECK_MS = 250;
/**
 * Verdict on a call that arrives while the worker stops, after its slot was given to another call, or while its Redis cannot
 * be used.
 */
const REQUEUE: Verdict = { kind: "requeue" };
/** Pause before a failed fetch is repeated. */
const RETRY_PAUSE_MS = 1000;

type ToNext = ReturnType<typeof createTake>["toNext"];

/** A slot in use. */
type Slot = {
  readonly turn: Turn<SourceOf>;
  readonly token: string;
  /** The hold on the slot's call, until the outcome of the call is known. */
  hold: Hold | undefined;
  /** True once another call may use the slot. */
  isFree: boolean;
};

function free(turns: Turns<SourceOf>, slot: Slot): void {
  if (slot.isFree) return;
  slot.isFree = true;
  turns.release(slot.turn);
}

function waitsForAwayPartition({ hold, turn }: Slot): boolean {
  const isWithRunner = hold !== undefined && !hold.isAnswered;
  return !turn.source.station.server.isUsable && !isWithRunner;
}

/**
 * Creates the function that runs a taken call: it delivers the call and writes the verdict. It resolves with the next call,
 * if the step that wrote the verdict also took one.
 */
function createRun({ turns, permits }: TakeParts, toNext: ToNext, isStopped: () => boolean) {
  return async function run(slot: Slot, next: FetchedCall): Promise<FetchedCall | undefined> {
    const { turn, token } = slot;
    const { station, queue } = turn.source;
    const { lostTakes, holds } = station;
    const held = toHeld(queue, token, next);
    holds.add(held);
    lostTakes.begin(token, held);
    try {
      slot.hold = held.hold;
      const isTooLate = isStopped() || slot.isFree || !station.server.isUsable;
      const verdict = isTooLate ? REQUEUE : await station.deliver(toTaken(queue, next), held.hold);
      slot.hold = undefined;
      const mayKeep = !isStopped() && !slot.isFree && leaves(verdict) && !permits.isHeld(token);
      const keepsSlot = mayKeep && turns.mayKeepSlot(turn);
      const { notices } = turns;
      if (keepsSlot) lostTakes.taking(token);
      const fetched = await station.finish(
        held,
        verdict,
        keepsSlot ? { bytes: turns.bytesOfSlot } : undefined,
      );
      return toNext(turn.source, fetched, notices);
    } finally {
      lostTakes.end(held);
      holds.remove(held);
    }
  };
}

/** Creates the functions that take and run calls in the free slots. */
function createWork({ workerName, log }: ConsumeOptions, parts: TakeParts) {
  const { turns, permits } = parts;
  const { take, toNext } = createTake(log, parts);
  const slots = new Map<Slot, Promise<void>>();
  const run = createRun(parts, toNext, () => stopped);
  let tokens = 0;
  let stopped = false;

  /**
   * Fills the free slots. Fetches from all queues concurrently, with at most one fetch for each call that is known to
   * wait.
   */
  function fill(): void {
    while (!stopped) {
      const turn = turns.next();
      if (turn === undefined) return;
      const slot: Slot = { turn, token: `${workerName}:${tokens++}`, hold: undefined, isFree: false };
      slots.set(
        slot,
        use(slot).finally(() => slots.delete(slot)),
      );
    }
  }

  async function use(slot: Slot): Promise<void> {
    const { turn, token } = slot;
    const { station, queue } = turn.source;
    let isUsed = true;
    try {
      let next = await take(turn, token);
      isUsed = next !== undefined;
      if (isUsed) fill();
      while (next !== undefined) next = await run(slot, next);
    } catch (error) {
      log.warn("queue.error", { queue, reason: messageOf(error) });
      if (!stopped) await delay(RETRY_PAUSE_MS);
    }
    station.lostTakes.free(token);
    const released = permits.isHeld(token) ? permits.release(token, isUsed) : undefined;
    free(turns, slot);
    fill();
    await released?.catch(() => {});
  }

  return {
    fill,

    /** Counts the slots with a call. A slot that is still fetching does not count. */
    inFlight: () => [...slots.keys()].filter(({ hold, isFree }) => hold !== undefined && !isFree).length,

    /**
     * Frees the slots that only wait for a partition that is away, and their permits. Such a slot waits for the reply to a
     * fetch, or until an outcome is written. Other calls can then use them. If that partition later gives a call to such a
     * slot, the call is returned to its queue.
     */
    freeSlotsOfAwayPartitions(): void {
      for (const slot of slots.keys()) {
        if (!waitsForAwayPartition(slot)) continue;
        free(turns, slot);
        permits.release(slot.token, true).catch(() => {});
      }
      fill();
    },

    /** Stops taking new calls. Resolves once those in flight have ended. */
    async stop(): Promise<void> {
      stopped = true;
      await Promise.all(slots.values());
    },
  };
}
