import type { Logger } from "../../../shared/platform/log/logger.ts";
import { delay, settled } from "../../../shared/platform/time/clock.ts";
import { openBackends, type QueueBackend, type Work } from "../../../shared/queue/backend.ts";
import { createCallRecords } from "../../../shared/queue/call-record.ts";
import { gateOf, type QueueName } from "../../../shared/queue/queue-name.ts";
import type { DurableRedis } from "../../../shared/redis/durable.ts";
import { logOf, type Partition } from "../../../shared/redis/partition.ts";
import { createFinish, type Finish } from "./finish.ts";
import { createHolds, type Holds } from "./hold.ts";
import { createAnnounce, createListen } from "./listen.ts";
import { createLostTakes, type LostTakes } from "./lost-takes.ts";
import type { Deliver } from "./taken.ts";
import type { Source, Turns } from "./turns.ts";
import { createUpkeep } from "./upkeep.ts";

/** A partition to take calls from. */
export type ServedPartition = {
  readonly partition: Partition;
  /** State of the partition's Redis (shared/redis/durable.ts). */
  readonly server: Pick<DurableRedis, "firstCheck" | "isUsable" | "isRefused">;
  /** Delivers the calls of this partition. */
  readonly deliver: Deliver;
  /** Runs before the first call is taken, and again if Redis has lost its data. If the first run fails, no call is taken. */
  readonly prepare?: (() => Promise<void>) | undefined;
};

type Options = {
  work: Work;
  serves: (queue: QueueName) => boolean;
  log: Logger;
  pollMs?: number | undefined;
  emptyMs?: number | undefined;
};

/** Pause after a failed start, before the station is started again. */
const AGAIN_MS = 1000;

/** A queue, with the station and the backend that take its calls. */
export type SourceOf = Source & { readonly station: Station; readonly backend: QueueBackend };

/**
 * The part of a worker that takes calls from one partition. It has two connections: one sends commands, and one waits for
 * names of queues with calls (listen.ts).
 */
export type Station = ServedPartition & {
  readonly lostTakes: LostTakes;
  readonly holds: Holds;
  readonly finish: Finish;
  readonly announce: ReturnType<typeof createAnnounce>;
  sourceOf(queue: QueueName): SourceOf;
  /** Schedules a move of due queues to `wake` (frame.lua), after `ms`. */
  dueIn(ms: number): void;
  /** Lets producers fetch from the queue again after `ms` (frame.lua). Sends the command and does not wait for the reply. */
  postpone(queue: QueueName, ms: number): void;
  /** Starts this station. Resolves once it takes calls; rejects if it cannot take any. */
  start(turns: Turns<SourceOf>, fill: () => void): Promise<void>;
  /** Repeats a rejected start until it succeeds. */
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
  const announce = createAnnounce(partition);
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
    announce,

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

    postpone(queue, ms) {
      if (!served.server.isUsable) return;
      announce.later([queue], ms).catch(() => {});
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
