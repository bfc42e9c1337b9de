import type { JobJson } from "bullmq";
import { messageOf } from "../errors/app-error.ts";
import { failpoint } from "../lifecycle/failpoint.ts";
import type { Logger } from "../log/logger.ts";
import type { Partition } from "../redis/partition.ts";
import { delay, within } from "../time/clock.ts";
import { type Backends, type Fetched, openBackends } from "./backend.ts";
import { createFinish, leaves, type Verdict } from "./finish.ts";
import { createHolds, type Held, Hold } from "./hold.ts";
import { createListen } from "./listen.ts";
import type { RecordState } from "./protocol.ts";
import { originOf, type QueueName } from "./queue-name.ts";
import { createReclaim, type Reclaim } from "./reclaim.ts";
import { createTurns } from "./turns.ts";
import { createUpkeep, stalledIntervalOf } from "./upkeep.ts";

/** A call taken from its queue. `stored` is what was written there, not yet parsed; `attempt` counts from 1. */
export type Taken = {
  id: string;
  queue: QueueName;
  origin: string;
  stored: unknown;
  /** The state of its record when it was taken, if it has one; NEWER if a later release wrote it. */
  record: RecordState | "NEWER" | undefined;
  attempt: number;
  queuedAt: number;
};

/** Delivers one call and decides what happens to it. Should stop early if `hold` is lost. Must not throw. */
export type Deliver = (taken: Taken, hold: Hold) => Promise<Verdict>;

export type ConsumeOptions = {
  partition: Partition;
  /** Which queues this worker takes calls from. */
  serves: (queue: QueueName) => boolean;
  /** Whether the calls of a job cannot be delivered now, so that this worker takes none. */
  isClosed: (job: string) => boolean;
  deliver: Deliver;
  /** Done before the first call is taken, and again if Redis has lost what it wrote. If it fails at first, none is taken. */
  prepare?: (() => Promise<void>) | undefined;
  /** Calls in hand at once. */
  slots: number;
  lockMs: number;
  workerName: string;
  log: Logger;
  /** How often the worker looks for what nobody told it of. */
  pollMs?: number | undefined;
  /** For how long a queue without a call stays in the registry. */
  emptyMs?: number | undefined;
};

export type Consumer = {
  /** Resolves when calls are being taken. Rejects if they cannot be. */
  ready(): Promise<void>;
  /** Takes calls again, since those of some job may have become deliverable. */
  refill(): void;
  /** Takes no new calls and waits for those in hand. After `graceMs` their holds are lost. */
  close(graceMs: number): Promise<void>;
};

/** Time for aborted injections to put their calls back. */
const GIVE_BACK_MS = 1000;

/**
 * Takes calls from all queues of a partition by turns, and does with each what `deliver` decides. However many queues there are,
 * it needs two connections: `partition.redis`, from connectForWork, and one of its own on which it waits to be woken.
 */
export function consume(options: ConsumeOptions): Consumer {
  const { partition, serves, lockMs, workerName } = options;
  const backendOf = openBackends(partition, {
    name: workerName,
    lockDuration: lockMs,
    stalledInterval: stalledIntervalOf(lockMs),
    maxStalledCount: 1_000_000,
    metrics: { maxDataPoints: 60 },
  });
  const reclaim = createReclaim(partition, { backendOf, tokenPrefix: `${workerName}:`, log: options.log });
  const upkeep = createUpkeep(options, backendOf, reclaim);
  const holds = createHolds(partition, lockMs);
  const taker = createTaker(options, { backendOf, upkeep, holds, reclaim });
  const { turns, fill } = taker;
  const listen = createListen({ partition, serves, turns, fill, isRefused: () => upkeep.refused });
  const started = upkeep.start().then(listen.start);
  started.catch(() => {});
  const renewing = setInterval(() => void holds.renew().catch(() => {}), Math.max(250, lockMs / 4));

  return {
    ready: () => started,
    refill: taker.fill,
    async close(graceMs) {
      const ended = taker.stop();
      upkeep.stop();
      reclaim.stop();
      listen.stop();
      if ((await within(graceMs, ended)).kind === "late") {
        holds.loseAll("the worker stops");
        await within(GIVE_BACK_MS, ended);
      }
      clearInterval(renewing);
    },
  };
}

/** Pause before a fetch that failed is tried again. */
const RETRY_PAUSE_MS = 1000;

type Parts = {
  backendOf: Backends;
  upkeep: ReturnType<typeof createUpkeep>;
  holds: ReturnType<typeof createHolds>;
  reclaim: Reclaim;
};

type Next = Extract<Fetched, { kind: "call" }>;

/** Takes and runs calls in the free slots. */
function createTaker(options: ConsumeOptions, { backendOf, upkeep, holds, reclaim }: Parts) {
  const { workerName, log } = options;
  const turns = createTurns(options.slots, (job) => upkeep.refused || options.isClosed(job));
  const finish = createFinish(backendOf, log);
  const working = new Set<Promise<void>>();
  let tokens = 0;
  let stopped = false;

  /** Fills the free slots: all queues are fetched from at once, and each by one fetch at a time. */
  function fill(): void {
    while (!stopped) {
      const queue = turns.next();
      if (queue === undefined) return;
      const work = useSlot(queue).finally(() => working.delete(work));
      working.add(work);
    }
  }

  async function useSlot(queue: QueueName): Promise<void> {
    const token = `${workerName}:${tokens++}`;
    try {
      const first = await fetch(queue, token);
      if (first !== undefined) {
        fill();
        await runInTurn(queue, token, first);
      }
    } catch (error) {
      log.warn("queue.error", { queue, reason: messageOf(error) });
      if (!stopped) await delay(RETRY_PAUSE_MS);
    }
    reclaim.free(token);
    turns.release(queue);
    fill();
  }

  async function fetch(queue: QueueName, token: string): Promise<Next | undefined> {
    const { told } = turns;
    reclaim.inHand(token, undefined);
    try {
      const fetched = await backendOf(queue).fetch(token, workerName);
      failpoint("producer.after_fetch");
      return toNext(queue, fetched, told);
    } finally {
      turns.fetched(queue);
    }
  }

  /** Runs calls of one queue, one after the other, for as long as it keeps the slot. */
  async function runInTurn(queue: QueueName, token: string, first: Next): Promise<void> {
    for (let next: Next | undefined = first; next !== undefined; ) next = await run(queue, token, next);
  }

  /** Resolves with the next call, if one was taken while this one was finished. */
  async function run(queue: QueueName, token: string, next: Next): Promise<Next | undefined> {
    const { id, windowMs, json } = next;
    const held: Held = { queue, id, token, hold: new Hold(), windowMs, retried: json.attemptsStarted > 1 };
    holds.add(held);
    reclaim.inHand(token, id);
    try {
      const verdict = await options.deliver(toTaken(queue, next), held.hold);
      const again = !stopped && leaves(verdict) && turns.keepsSlot(queue);
      const { told } = turns;
      reclaim.inHand(token, undefined);
      return toNext(queue, await finish(held, verdict, again), again ? told : -1);
    } finally {
      holds.remove(held);
    }
  }

  /** The call, if there is one. Else the queue has had none since `told`. */
  function toNext(queue: QueueName, fetched: Fetched | undefined, told: number): Next | undefined {
    if (fetched?.kind === "call") return fetched;
    if (fetched !== undefined) turns.none(queue, told);
    if (fetched?.recheckAt !== undefined) upkeep.dueAt(fetched.recheckAt);
    return undefined;
  }

  return {
    turns,
    fill,
    /** Takes no more. Resolves once the calls in hand have ended. */
    async stop(): Promise<void> {
      stopped = true;
      await Promise.all(working);
    },
  };
}

function toTaken(queue: QueueName, { id, json, record }: Next): Taken {
  return {
    ...{ id, queue, origin: originOf(queue), record },
    stored: parsed(json),
    attempt: json.attemptsMade + 1,
    queuedAt: json.timestamp,
  };
}

/** Undefined if it is no JSON. */
function parsed({ data }: JobJson): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}
