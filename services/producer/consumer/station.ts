import type { Logger } from "../../../shared/platform/log/logger.ts";
import { delay, settled } from "../../../shared/platform/time/clock.ts";
import { openBackends, type QueueBackend, type Work } from "../../../shared/queue/backend.ts";
import { createCallRecords } from "../../../shared/queue/call-record.ts";
import { gateOf, type QueueName } from "../../../shared/queue/queue-name.ts";
import type { DurableRedis } from "../../../shared/redis/durable.ts";
import { logOf, type Partition } from "../../../shared/redis/partition.ts";
import { createFinish, type Finish } from "./finish.ts";
import { createHolds, type Holds } from "./hold.ts";
import { createListen, createTell } from "./listen.ts";
import { createLostTakes, type LostTakes } from "./lost-takes.ts";
import type { Deliver } from "./taken.ts";
import type { Source, Turns } from "./turns.ts";
import { createUpkeep } from "./upkeep.ts";

/** A partition that calls are taken from. */
export type ServedPartition = {
  readonly partition: Partition;
  /** Whether its Redis can be used (shared/redis/durable.ts). */
  readonly server: Pick<DurableRedis, "firstCheck" | "isUsable" | "isRefused">;
  /** Delivers the calls of this partition. */
  readonly deliver: Deliver;
  /** Done before the first call is taken, and again if Redis has lost what it wrote. If it fails at first, none is taken. */
  readonly prepare?: (() => Promise<void>) | undefined;
};

type Options = {
  work: Work;
  serves: (queue: QueueName) => boolean;
  log: Logger;
  pollMs?: number | undefined;
  emptyMs?: number | undefined;
};

/** Pause before a station that could not begin is tried again. */
const AGAIN_MS = 1000;

/** A queue of a station. */
export type SourceOf = Source & { readonly station: Station; readonly backend: QueueBackend };

/** The part of a worker that takes calls from one partition, with two connections. */
export type Station = ServedPartition & {
  readonly lostTakes: LostTakes;
  readonly holds: Holds;
  readonly finish: Finish;
  readonly tell: ReturnType<typeof createTell>;
  sourceOf(queue: QueueName): SourceOf;
  /** Looks for queues that are due after `ms`. */
  dueIn(ms: number): void;
  /** Makes the queue due after `ms`, without waiting for Redis. */
  putOff(queue: QueueName, ms: number): void;
  /** Resolves when calls are being taken. Rejects if they cannot be. */
  start(turns: Turns<SourceOf>, fill: () => void): Promise<void>;
  /** Begins once the partition can be used, after a start that was rejected. */
  startAgain(): Promise<void>;
  stop(): void;
};

export function createStation(
  served: ServedPartition,
  { work, serves, pollMs, emptyMs, ...options }: Options,
): Station {
  const { partition } = served;
  const log = logOf(partition, options.log);
  const backendOf = openBackends(partition, work);
  const lostTakes = createLostTakes(partition, { backendOf, worker: work.name, log });
  const lockMs = work.lockDuration;
  const upkeep = createUpkeep({ ...served, serves, lockMs, log, pollMs, emptyMs }, backendOf, lostTakes);
  const holds = createHolds(partition, lockMs);
  const records = createCallRecords(partition);
  const lookForTaken = lostTakes.look;
  const finish = createFinish({ backendOf, holds, records, dueIn: upkeep.dueIn, lookForTaken, log });
  const tell = createTell(partition);
  const sources = new Map<QueueName, SourceOf>();
  let listen: { start: () => void; stop: () => void } | undefined;
  let stopped = false;

  async function begin(): Promise<void> {
    await upkeep.start();
    listen?.start();
  }

  const station: Station = {
    ...served,
    lostTakes,
    holds,
    finish,
    dueIn: upkeep.dueIn,
    tell,

    sourceOf(queue) {
      const known = sources.get(queue);
      if (known !== undefined) return known;
      const source = { station, queue, gate: gateOf(queue), backend: backendOf(queue) };
      sources.set(queue, source);
      return source;
    },

    async start(turns, fill) {
      listen = createListen({ ...served, serves, sourceOf: station.sourceOf, turns, fill });
      await served.server.firstCheck;
      await begin();
    },

    async startAgain() {
      while (!stopped) {
        await delay(AGAIN_MS);
        if ((await settled(begin())).kind === "done") return;
      }
    },

    putOff(queue, ms) {
      if (!served.server.isUsable) return;
      tell.later([queue], ms).catch(() => {});
      upkeep.dueIn(ms);
    },

    stop() {
      stopped = true;
      upkeep.stop();
      lostTakes.stop();
      listen?.stop();
    },
  };
  return station;
}
