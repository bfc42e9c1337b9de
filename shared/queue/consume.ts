import type { MinimalJob } from "bullmq";
import { messageOf } from "../errors/app-error.ts";
import { failpoint } from "../lifecycle/failpoint.ts";
import type { Logger } from "../log/logger.ts";
import type { Partition } from "../redis/partition.ts";
import { delay, within } from "../time/clock.ts";
import { type Fetched, openBackends, type QueueBackend } from "./backend.ts";
import { createHolds, type Held, Hold } from "./hold.ts";
import { JOB_OPTIONS, type RecordState } from "./protocol.ts";
import { jobOf, originOf, type QueueName } from "./queue-name.ts";
import { createTurns } from "./turns.ts";
import { createUpkeep, stalledIntervalOf } from "./upkeep.ts";
import { connectToBlock, nextWoken } from "./wake.ts";

/** What happens to a call that was taken from its queue. */
export type Verdict =
  /** The runner has it: it leaves the queue, and its record says INJECTED. */
  | { kind: "injected"; onRecorded: () => void }
  /** It has ended before: it leaves the queue, and its record stays as it is. */
  | { kind: "dropped" }
  /** It waits and is taken again; the attempt counts. */
  | { kind: "retry"; afterMs: number; reason: string }
  /** It waits and is taken again; the attempt does not count. */
  | { kind: "postpone"; untilMs: number }
  /** It waits again at the head of its queue; the attempt does not count. */
  | { kind: "back" }
  /** It stays in the queue as failed, until an operator replays or discards it. `reason` starts with its error code. */
  | { kind: "fail"; reason: string };

/** A call taken from its queue. `stored` is what was written there, not yet parsed; `attempt` counts from 1. */
export type Taken = {
  id: string;
  queue: QueueName;
  origin: string;
  /** `<service id>/<job id>` */
  job: string;
  stored: unknown;
  /** The state of its record when it was taken, if it has one; NEWER if a later release wrote it. */
  record: RecordState | "NEWER" | undefined;
  attempt: number;
  queuedAt: number;
};

/** Delivers one call and decides what happens to it. Should stop early if `hold` is lost. Must not throw. */
export type Deliver = (taken: Taken, hold: Hold) => Promise<Verdict>;

export type Consumer = {
  /** Resolves when calls are being taken. Rejects if they cannot be. */
  ready(): Promise<void>;
  /** A job may have become deliverable that was not. */
  lookAgain(): void;
  /** Takes no new calls and waits for those in hand. After `graceMs` their holds are lost. */
  close(graceMs: number): Promise<void>;
};

export type ConsumeOptions = {
  partition: Partition;
  /** Which queues this worker takes calls from. */
  takes: (queue: QueueName) => boolean;
  /** Whether the calls of a job cannot be delivered now, so that this worker takes none. */
  isClosed: (job: string) => boolean;
  deliver: Deliver;
  /** Calls in hand at once. */
  slots: number;
  lockMs: number;
  workerName: string;
  log: Logger;
  pollMs?: number;
  /** For how long a queue without a call stays in the registry. */
  emptyMs?: number;
};

/** Pause after a command of the worker's own failed. */
const FAILED_PAUSE_MS = 1000;
/** A worker that is told of a queue that it may not take from listens again after this long. */
const UNUSABLE_PAUSE_MS = 50;
/** Another worker is told of such a queue after this long. */
const PASSED_ON_MS = 1000;
/** Time for aborted injections to put their calls back. */
const GIVE_BACK_MS = 1000;

type Next = Extract<Fetched, { kind: "call" }>;

/**
 * Takes calls from all queues of a partition by turns, and does with each what `deliver` decides. However many queues there are,
 * it needs two connections: `partition.redis`, from connectForWork, and one of its own on which it waits to be woken.
 */
export function consume(options: ConsumeOptions): Consumer {
  const { partition, deliver, lockMs, workerName, log } = options;
  const { redis, keys } = partition;
  const backendOf = openBackends(partition, {
    name: workerName,
    lockDuration: lockMs,
    stalledInterval: stalledIntervalOf(lockMs),
    maxStalledCount: 1_000_000,
    metrics: { maxDataPoints: 60 },
  });
  const upkeep = createUpkeep(options, backendOf);
  const turns = createTurns(options.slots, (job) => upkeep.refused || options.isClosed(job));
  const holds = createHolds(partition, lockMs);
  const blocking = connectToBlock(redis);
  const roomMade = createSignal();
  const inHand = new Set<Promise<void>>();
  const fetching = new Set<QueueName>();
  let tokens = 0;
  let closing = false;

  /** Fills the free slots: each queue has one fetch under way at a time, and all of them at once. */
  function fill(): void {
    while (!closing) {
      const queue = turns.next((one) => fetching.has(one));
      if (queue === undefined) return;
      fetching.add(queue);
      const work = fetchAndRun(queue).finally(() => inHand.delete(work));
      inHand.add(work);
    }
  }

  async function fetchAndRun(queue: QueueName): Promise<void> {
    const token = `${workerName}:${tokens++}`;
    try {
      const next = await fetchFirst(queue, token);
      fetching.delete(queue);
      if (next === undefined) turns.remove(queue);
      else {
        fill();
        await runInTurn(queue, token, next);
      }
    } catch (error) {
      fetching.delete(queue);
      turns.remove(queue);
      log.warn("queue.error", { queue, reason: messageOf(error) });
      if (!closing) await delay(FAILED_PAUSE_MS);
    }
    turns.release(queue);
    roomMade.fire();
    fill();
  }

  async function fetchFirst(queue: QueueName, token: string): Promise<Next | undefined> {
    const fetched = await backendOf(queue).fetch(token, workerName);
    failpoint("producer.after_fetch");
    return toNext(fetched);
  }

  function toNext(fetched: Fetched | undefined): Next | undefined {
    if (fetched?.kind === "call") return fetched;
    if (fetched?.lookAt !== undefined) upkeep.lookAt(fetched.lookAt);
    return undefined;
  }

  /** Runs calls of one queue, one after the other, for as long as it keeps the slot. */
  async function runInTurn(queue: QueueName, token: string, first: Next): Promise<void> {
    for (let next: Next | undefined = first; next !== undefined; ) next = await runOne(queue, token, next);
  }

  /** Resolves with the next call, if it was fetched while this one was finished. */
  async function runOne(queue: QueueName, token: string, next: Next): Promise<Next | undefined> {
    const held: Held = { queue, id: next.id, token, hold: new Hold() };
    holds.add(held);
    try {
      const verdict = await deliver(toTaken(queue, next), held.hold);
      return await finish(held, verdict);
    } finally {
      holds.remove(held);
    }
  }

  /** Repeats what failed, until the hold is lost. */
  async function finish(held: Held, verdict: Verdict): Promise<Next | undefined> {
    const backend = backendOf(held.queue);
    for (;;) {
      const again =
        (verdict.kind === "injected" || verdict.kind === "dropped") && !closing && turns.again(held.queue);
      try {
        const next = toNext(await apply(backend, held, verdict, again));
        failpoint("producer.after_finish");
        if (verdict.kind === "injected") verdict.onRecorded();
        if (again && next === undefined) turns.remove(held.queue);
        if (verdict.kind === "retry") upkeep.lookAt(Date.now() + verdict.afterMs);
        if (verdict.kind === "postpone") upkeep.lookAt(verdict.untilMs);
        return next;
      } catch (error) {
        const { queue, id: callId } = held;
        if (isGone(error)) {
          log.warn("call.lost", { queue, callId, reason: messageOf(error) });
          return undefined;
        }
        log.warn("queue.error", { queue, callId, reason: messageOf(error) });
        if (held.hold.lost) return undefined;
        await delay(FAILED_PAUSE_MS);
      }
    }
  }

  /** Tells the queues that others have woken this worker for. */
  async function listen(): Promise<void> {
    while (!closing) {
      if (!turns.hasRoom) await roomMade.wait();
      else await listenOnce().catch(() => (closing ? undefined : delay(FAILED_PAUSE_MS)));
    }
  }

  async function listenOnce(): Promise<void> {
    const queue = await nextWoken(blocking, partition);
    if (queue === undefined) return;
    failpoint("producer.after_wake");
    if (!options.takes(queue)) return passOn(queue);
    turns.add(queue);
    if (turns.mayTake(queue) || fetching.has(queue)) return fill();
    await passOn(queue);
  }

  /** Another worker may take from the queue. This one hears of it again too, so it lets some time pass. */
  async function passOn(queue: QueueName): Promise<void> {
    if (!turns.hasRoom) {
      await redis.zadd(keys.wake, "NX", 0, queue);
      return;
    }
    await redis.zadd(keys.due, "LT", Date.now() + PASSED_ON_MS, queue);
    await delay(UNUSABLE_PAUSE_MS);
  }

  const started = upkeep.start().then(() => void listen());
  started.catch(() => {});
  const renewing = setInterval(() => void holds.renew().catch(() => {}), Math.max(250, lockMs / 4));

  return {
    ready: () => started,
    lookAgain: fill,
    async close(graceMs) {
      closing = true;
      upkeep.stop();
      blocking.disconnect();
      roomMade.fire();
      const ended = Promise.all([...inHand]);
      if ((await within(graceMs, ended)).kind === "late") {
        holds.loseAll("the worker stops");
        await within(GIVE_BACK_MS, ended);
      }
      clearInterval(renewing);
    },
  };
}

function createSignal() {
  let fire: (() => void) | undefined;
  let fired: Promise<void> | undefined;
  return {
    wait(): Promise<void> {
      fired ??= new Promise((resolve) => {
        fire = resolve;
      });
      return fired;
    },
    fire(): void {
      fire?.();
      fired = undefined;
    },
  };
}

function toTaken(queue: QueueName, { id, json, record }: Next): Taken {
  return {
    ...{ id, queue, origin: originOf(queue), job: jobOf(queue), record },
    stored: parsed(json.data),
    attempt: json.attemptsMade + 1,
    queuedAt: json.timestamp,
  };
}

function parsed(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}

/** The one place where a verdict becomes what BullMQ understands. Answers the next call if it was to be taken too. */
async function apply(
  backend: QueueBackend,
  { id, token }: Held,
  verdict: Verdict,
  again: boolean,
): Promise<Fetched | undefined> {
  const now = Date.now();
  switch (verdict.kind) {
    case "injected":
      return backend.injected(id, token, again);
    case "dropped":
      return backend.dropped(id, token, again);
    case "fail": {
      const job = { id, opts: { attempts: JOB_OPTIONS.attempts } } as MinimalJob;
      await backend.moveToFailed(job, verdict.reason, false, token, false);
      return undefined;
    }
    case "retry": {
      const fieldsToUpdate = { failedReason: verdict.reason };
      await backend.moveToDelayed(id, now, verdict.afterMs, token, { fieldsToUpdate });
      return undefined;
    }
    case "postpone":
      await backend.moveToDelayed(id, now, Math.max(0, verdict.untilMs - now), token, { skipAttempt: true });
      return undefined;
    case "back":
      await backend.moveJobFromActiveToWait(id, token);
      return undefined;
  }
}

/** BullMQ's codes for a call that is no longer this worker's: gone, its lock gone or another's, not in hand. */
function isGone(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === -1 || code === -2 || code === -3 || code === -6;
}
