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
  /** The partitions that calls are taken from. Partition 0 is where workers agree on what holds over all of them. */
  served: Partitioned<ServedPartition>;
  /** Which queues this worker takes calls from. */
  serves: (queue: QueueName) => boolean;
  /** Whether the calls that go through a gate cannot be delivered now, so that this worker takes none. */
  isClosed: (gate: string) => boolean;
  /** Calls in flight at once, over all partitions. */
  slots: number;
  /** Limit of the stored bytes of the calls in flight. */
  bodyBudgetBytes: number;
  lockMs: number;
  results: ResultLimits;
  workerName: string;
  log: Logger;
  /** How often the worker looks for calls that no wake-up announced. */
  pollMs?: number | undefined;
  /** For how long a queue without a call stays in the registry. */
  emptyMs?: number | undefined;
};

export type Consumer = {
  /** Resolves when calls are being taken from a partition. Rejects if the first that can be asked does not let that happen. */
  ready(): Promise<void>;
  /** Takes calls again, since those of some job may have become deliverable. */
  refill(): void;
  /** Calls in flight. */
  inFlight(): number;
  /** Takes no new calls. Those in flight go on. */
  stop(): void;
  /** Takes no new calls and waits for those in flight. After `graceMs` their holds are lost. */
  close(graceMs: number): Promise<void>;
};

/** Time for aborted injections to put their calls back. */
const RELEASE_MS = 1000;

/**
 * Takes calls from all queues by turns, and does with each what `deliver` decides. However many queues there are, it needs two connections
 * for each partition: its own, from connectForWork, and one on which it waits to be woken. The slots are for the queues of all partitions.
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
    if (station?.server.isUsable) station.tell.now([queue]).catch(() => {});
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
  // With one partition, all slots are for the one that is away.
  const freeing = stations.length > 1 ? setInterval(working.freeThoseAway, AWAY_LOOK_MS) : undefined;

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

/** How often slots are looked for that wait for a partition that is away. */
const AWAY_LOOK_MS = 250;
/** For a call that is taken while the worker stops, or after its slot was freed. */
const REQUEUE: Verdict = { kind: "requeue" };
/** Pause before a fetch that failed is tried again. */
const RETRY_PAUSE_MS = 1000;

type ToNext = ReturnType<typeof createTake>["toNext"];

/** A slot that is used. */
type Slot = {
  readonly turn: Turn<SourceOf>;
  readonly token: string;
  /** The hold on the call in it, until its verdict is known. */
  hold: Hold | undefined;
  /** Whether another call may use it already. */
  isFree: boolean;
};

function free(turns: Turns<SourceOf>, slot: Slot): void {
  if (slot.isFree) return;
  slot.isFree = true;
  turns.release(slot.turn);
}

function waitsForOneAway({ hold, turn }: Slot): boolean {
  const isWithRunner = hold !== undefined && !hold.isAnswered;
  return !turn.source.station.server.isUsable && !isWithRunner;
}

/** Runs a call, and resolves with the next one, if that was taken while this one was finished. */
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
      const keepsSlot = mayKeep && turns.keeps(turn);
      const { told } = turns;
      if (keepsSlot) lostTakes.taking(token);
      const fetched = await station.finish(
        held,
        verdict,
        keepsSlot ? { bytes: turns.bytesOfSlot } : undefined,
      );
      return toNext(turn.source, fetched, told);
    } finally {
      lostTakes.end(held);
      holds.remove(held);
    }
  };
}

/** Takes and runs calls in the free slots. */
function createWork({ workerName, log }: ConsumeOptions, parts: TakeParts) {
  const { turns, permits } = parts;
  const { take, toNext } = createTake(log, parts);
  const slots = new Map<Slot, Promise<void>>();
  const run = createRun(parts, toNext, () => stopped);
  let tokens = 0;
  let stopped = false;

  /** Fills the free slots: all queues are fetched from at once, and each by as many fetches as calls are known to wait there. */
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

    /** A slot that only looks for a call is not counted. */
    inFlight: () => [...slots.keys()].filter(({ hold, isFree }) => hold !== undefined && !isFree).length,

    /**
     * Frees the slots, and ends the permits, of calls that only wait for a partition that is away. The others use them meanwhile. A call that
     * such a partition still gives is put back.
     */
    freeThoseAway(): void {
      for (const slot of slots.keys()) {
        if (!waitsForOneAway(slot)) continue;
        free(turns, slot);
        permits.release(slot.token, true).catch(() => {});
      }
      fill();
    },

    /** Takes no new calls. Resolves once those in flight have ended. */
    async stop(): Promise<void> {
      stopped = true;
      await Promise.all(slots.values());
    },
  };
}
