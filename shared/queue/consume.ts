import { DelayedError, type Job, UnrecoverableError, Worker } from "bullmq";
import type { Origin } from "../job-call/job-call.ts";
import type { Logger } from "../log/logger.ts";
import type { Redis } from "../redis/connect.ts";
import { delay, within } from "../time/clock.ts";
import { Hold } from "./hold.ts";
import { logErrors } from "./log-errors.ts";
import { WORKER_OPTIONS } from "./protocol.ts";

/** What is to become of a call that was taken from the queue. */
export type Verdict =
  /** It leaves the queue. */
  | { kind: "done" }
  /** It waits and is taken again; the attempt is spent. */
  | { kind: "retry"; afterMs: number; reason: string }
  /** It waits and is taken again; no attempt is spent. */
  | { kind: "postpone"; untilMs: number }
  /** It stays where an operator sees it, until somebody replays or discards it. `reason` starts with its error code. */
  | { kind: "fail"; reason: string };

/** A call as it lies in the queue: `stored` is what was written there, still unparsed; `attempt` counts from 1. */
export type Taken = { id: string; origin: Origin; stored: unknown; attempt: number; queuedAt: number };

/** Decides over one call, for as long as this worker has its hold on it. Must not throw. */
export type Deliver = (taken: Taken, hold: Hold) => Promise<Verdict>;

type Options = {
  /** From connectForWork. */
  redis: Redis;
  origin: Origin;
  deliver: Deliver;
  concurrency: number;
  lockMs: number;
  workerName: string;
  log: Logger;
};

export type Consumer = {
  /** Resolves when calls are being taken. */
  ready(): Promise<void>;
  /** Takes no new calls for this long. */
  pauseFor(ms: number): Promise<void>;
  /** Takes no new calls and waits for those in hand; after `graceMs` their holds are lost. */
  close(graceMs: number): Promise<void>;
};

/** Takes calls of one origin and does with each what `deliver` decides. */
export function consume({ redis, origin, deliver, concurrency, lockMs, workerName, log }: Options): Consumer {
  const holds = new Map<string, Hold>();

  // BullMQ makes an AbortController for each call when the processor has a third parameter.
  async function handle(job: Job, token: string | undefined): Promise<void> {
    const taken = toTaken(job, origin);
    const hold = new Hold();
    holds.set(taken.id, hold);
    const verdict = await deliver(taken, hold);
    if (holds.get(taken.id) === hold) holds.delete(taken.id);
    return apply(verdict, job, token);
  }

  const worker = new Worker(origin, handle, {
    ...WORKER_OPTIONS,
    connection: redis,
    concurrency,
    lockDuration: lockMs,
    stalledInterval: Math.max(500, Math.round(lockMs / 4)),
    name: workerName,
    settings: { backoffStrategy: (_attempts, _type, error) => (error instanceof Retry ? error.afterMs : 0) },
  });
  logErrors(worker, { origin, log });
  worker.on("stalled", (callId) => log.warn("call.taken_back", { origin, callId }));
  worker.on("lockRenewalFailed", (callIds: string[]) => {
    for (const callId of callIds) holds.get(callId)?.lose("the lock on the call was lost");
  });
  return {
    ready: async () => {
      await worker.waitUntilReady();
    },
    pauseFor: (ms) => pause(worker, ms),
    close: (graceMs) => close(worker, holds, graceMs),
  };
}

/** Time for aborted injections to put their calls back. */
const GIVE_BACK_MS = 1000;

/** An attempt that failed; carries its delay to the backoff strategy. */
class Retry extends Error {
  override readonly name = "Retry";
  readonly afterMs: number;

  constructor(reason: string, afterMs: number) {
    super(reason);
    this.afterMs = afterMs;
  }
}

function toTaken(job: Job, origin: Origin): Taken {
  return {
    id: job.id ?? "",
    origin,
    stored: job.data,
    attempt: job.attemptsMade + 1,
    queuedAt: job.timestamp,
  };
}

/** The one place where a verdict becomes what BullMQ understands. */
async function apply(verdict: Verdict, job: Job, token: string | undefined): Promise<void> {
  switch (verdict.kind) {
    case "done":
      return;
    case "retry":
      throw new Retry(verdict.reason, verdict.afterMs);
    case "postpone":
      await job.moveToDelayed(verdict.untilMs, token);
      throw new DelayedError();
    case "fail":
      throw new UnrecoverableError(verdict.reason);
  }
}

async function pause(worker: Worker, ms: number): Promise<void> {
  await worker.pause(true);
  await delay(ms);
  await worker.resume();
}

async function close(worker: Worker, holds: ReadonlyMap<string, Hold>, graceMs: number): Promise<void> {
  const closed = worker.close();
  if ((await within(graceMs, closed)).kind !== "late") return;
  for (const hold of holds.values()) hold.lose("the worker stops");
  await within(GIVE_BACK_MS, closed);
}
