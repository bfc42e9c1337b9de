import type { ResultLimits } from "../../../shared/call/results/result.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { parseJson } from "../../../shared/platform/text/parse-json.ts";
import { delay, within } from "../../../shared/platform/time/clock.ts";
import {
  type Backends,
  type Fetched,
  type FetchedCall,
  openBackends,
} from "../../../shared/queue/backend.ts";
import { createCallRecords } from "../../../shared/queue/call-record.ts";
import { callFields, type QueueName } from "../../../shared/queue/queue-name.ts";
import type { DurableRedis } from "../../../shared/redis/durable.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { createFinish, leaves, type Verdict } from "./finish.ts";
import { createHolds, type Held, Hold, type Holds } from "./hold.ts";
import { createListen, createTell } from "./listen.ts";
import { createLostTakes, type LostTakes } from "./lost-takes.ts";
import { type Turn, Turns } from "./turns.ts";
import { createUpkeep, stalledIntervalOf } from "./upkeep.ts";

/** A call taken from its queue. */
export type Taken = Pick<
  FetchedCall,
  "id" | "record" | "crashes" | "queuedAt" | "attemptsBefore" | "lastFailure" | "heldUntil"
> & {
  queue: QueueName;
  /** Of what was written there; undefined if it is no JSON. Only the first call has it, so that no large body stays behind. */
  takeStored: () => unknown;
  /** Counts from 1 the attempts that are spent since the call was queued or last replayed. */
  attempt: number;
  /** How often it was taken. */
  take: number;
};

/** Delivers one call and decides what happens to it. Should stop early if `hold` is lost. Must not throw. */
export type Deliver = (taken: Taken, hold: Hold) => Promise<Verdict>;

export type ConsumeOptions = {
  partition: Partition;
  /** Whether the partition's Redis can be used (shared/redis/durable.ts). */
  server: Pick<DurableRedis, "firstCheck" | "isUsable" | "isRefused">;
  /** Which queues this worker takes calls from. */
  serves: (queue: QueueName) => boolean;
  /** Whether the calls that go through a gate cannot be delivered now, so that this worker takes none. */
  isClosed: (gate: string) => boolean;
  deliver: Deliver;
  /** Done before the first call is taken, and again if Redis has lost what it wrote. If it fails at first, none is taken. */
  prepare?: (() => Promise<void>) | undefined;
  /** Calls in hand at once. */
  slots: number;
  /** So many bytes of calls, as stored, are in hand at once. */
  bodyBudgetBytes: number;
  lockMs: number;
  results: ResultLimits;
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
  /** Takes no new calls. Those in hand go on. */
  stop(): void;
  /** Takes no new calls and waits for those in hand. After `graceMs` their holds are lost. */
  close(graceMs: number): Promise<void>;
};

/** Time for aborted injections to put their calls back. */
const RELEASE_MS = 1000;

/**
 * Takes calls from all queues of a partition by turns, and does with each what `deliver` decides. However many queues there are,
 * it needs two connections: `partition.redis`, from connectForWork, and one of its own on which it waits to be woken.
 */
export function consume(options: ConsumeOptions): Consumer {
  const { partition, server, serves, lockMs, workerName } = options;
  const backendOf = openBackends(partition, {
    name: workerName,
    lockDuration: lockMs,
    stalledInterval: stalledIntervalOf(lockMs),
    results: options.results,
  });
  const lostTakes = createLostTakes(partition, { backendOf, worker: workerName, log: options.log });
  const upkeep = createUpkeep(options, backendOf, lostTakes);
  const holds = createHolds(partition, lockMs);
  const turns = new Turns({
    slots: options.slots,
    bytes: options.bodyBudgetBytes,
    isClosed: (gate) => !server.isUsable || options.isClosed(gate),
  });
  const work = createWork(options, { backendOf, turns, upkeep, holds, lostTakes });
  const listen = createListen({ partition, serves, turns, fill: work.fill, server });
  const started = server.firstCheck.then(upkeep.start).then(listen.start);
  started.catch(() => {});
  const renew = (): void => {
    holds.renew().catch(() => {});
    if (turns.isAlone) holds.renewAlone(workerName).catch(() => {});
  };
  const renewing = setInterval(renew, Math.max(250, lockMs / 4));

  return {
    ready: () => started,
    refill: work.fill,
    stop: () => void work.stop(),
    async close(graceMs) {
      const ended = work.stop();
      upkeep.stop();
      lostTakes.stop();
      listen.stop();
      if ((await within(graceMs, ended)).kind === "late") {
        holds.loseAll("the producer is stopping");
        await within(RELEASE_MS, ended);
      }
      clearInterval(renewing);
    },
  };
}

/** What a take brought that was under way when the worker was told to stop. */
const REQUEUE: Verdict = { kind: "requeue" };
/** Pause before a fetch that failed is tried again. */
const RETRY_PAUSE_MS = 1000;

type Parts = {
  backendOf: Backends;
  turns: Turns;
  upkeep: ReturnType<typeof createUpkeep>;
  holds: Holds;
  lostTakes: LostTakes;
};

/** Takes and runs calls in the free slots. */
function createWork(options: ConsumeOptions, parts: Parts) {
  const { turns, lostTakes, holds, backendOf } = parts;
  const { workerName, log } = options;
  const { take, toNext } = createTake(options, parts);
  const records = createCallRecords(options.partition);
  const finish = createFinish({
    backendOf,
    holds,
    records,
    dueIn: parts.upkeep.dueIn,
    lookForTaken: lostTakes.look,
    log,
  });
  const working = new Set<Promise<void>>();
  let tokens = 0;
  let stopped = false;

  /** Fills the free slots: all queues are fetched from at once, and each by as many fetches as calls are known to wait there. */
  function fill(): void {
    while (!stopped) {
      const turn = turns.next();
      if (turn === undefined) return;
      const work = useSlot(turn).finally(() => working.delete(work));
      working.add(work);
    }
  }

  async function useSlot(turn: Turn): Promise<void> {
    const token = `${workerName}:${tokens++}`;
    try {
      let next = await take(turn, token);
      if (next !== undefined) fill();
      while (next !== undefined) next = await run(turn, token, next);
    } catch (error) {
      log.warn("queue.error", { queue: turn.queue, reason: messageOf(error) });
      if (!stopped) await delay(RETRY_PAUSE_MS);
    }
    lostTakes.free(token);
    turns.release(turn);
    fill();
  }

  /** Resolves with the next call, if one was taken while this one was finished. */
  async function run(turn: Turn, token: string, next: FetchedCall): Promise<FetchedCall | undefined> {
    const { queue } = turn;
    const held = toHeld(queue, token, next);
    holds.add(held);
    lostTakes.begin(token, held);
    try {
      const verdict =
        stopped || !options.server.isUsable
          ? REQUEUE
          : await options.deliver(toTaken(queue, next), held.hold);
      const keepsSlot = !stopped && leaves(verdict) && turns.keeps(turn);
      const { told } = turns;
      if (keepsSlot) lostTakes.taking(token);
      const fetched = await finish(held, verdict, keepsSlot ? { bytes: turns.bytesOfSlot } : undefined);
      return toNext(queue, fetched, told);
    } finally {
      lostTakes.end(held);
      holds.remove(held);
    }
  }

  return {
    fill,
    /** Takes no more. Resolves once the calls in hand have ended. */
    async stop(): Promise<void> {
      stopped = true;
      await Promise.all(working);
    },
  };
}

/** How a call is taken, and what is learnt of its queue. */
function createTake({ partition, log }: ConsumeOptions, { backendOf, turns, upkeep, lostTakes }: Parts) {
  const tell = createTell(partition);

  async function take(turn: Turn, token: string): Promise<FetchedCall | undefined> {
    const { queue } = turn;
    const { told } = turns;
    lostTakes.taking(token);
    const fetched = await backendOf(queue)
      .fetch(token, turn)
      .catch((error) => {
        turns.fetched(queue);
        lostTakes.look();
        throw error;
      });
    failpoint("producer.after_fetch");
    turns.fetched(queue, fetched.kind === "call" ? fetched.waiting : 0);
    if (fetched.kind === "large") await makeRoom(queue, fetched.bytes);
    if (fetched.kind === "alone") await beAlone(queue, fetched.id);
    return toNext(queue, fetched, told);
  }

  /** If there is no room now, another worker may have some. */
  async function makeRoom(queue: QueueName, bytes: number): Promise<void> {
    turns.large(queue, bytes);
    if (!turns.isWanted(queue)) await tell.later([queue]);
  }

  /** Meanwhile other workers go on with the queues that this one was told of. */
  async function beAlone(queue: QueueName, callId: string): Promise<void> {
    if (turns.isAlone) return;
    log.warn("call.isolated", callFields(callId, queue));
    turns.alone(queue);
    await tell.later(turns.ready.filter((other) => other !== queue));
  }

  /** The call, if there is one. If the queue has none, it has had none since `told`. */
  function toNext(queue: QueueName, fetched: Fetched | undefined, told: number): FetchedCall | undefined {
    if (fetched?.kind === "call") return fetched;
    if (fetched?.kind !== "none") return undefined;
    turns.none(queue, told);
    if (fetched.recheckInMs !== undefined) upkeep.dueIn(fetched.recheckInMs);
    return undefined;
  }

  return { take, toNext };
}

function toHeld(
  queue: QueueName,
  token: string,
  { id, windowMs, attemptsStarted, crashes }: FetchedCall,
): Held {
  return { queue, id, token, hold: new Hold(), windowMs, take: attemptsStarted, crashes };
}

function toTaken(queue: QueueName, fetched: FetchedCall): Taken {
  const { id, record, attemptsMade, attemptsBefore, attemptsStarted, crashes, queuedAt, heldUntil } = fetched;
  const { lastFailure } = fetched;
  return {
    id,
    queue,
    takeStored: () => parsed(fetched),
    record,
    attempt: attemptsMade + 1,
    take: attemptsStarted,
    attemptsBefore,
    lastFailure,
    crashes,
    queuedAt,
    heldUntil,
  };
}

/** Undefined if it is no JSON. The text goes. */
function parsed(fetched: FetchedCall): unknown {
  const text = fetched.data;
  fetched.data = "";
  return parseJson(text);
}
