import { DelayedError, type Job, UnrecoverableError, WaitingError, Worker } from "bullmq";
import type { Origin } from "../job-call/job-call.ts";
import type { Logger } from "../log/logger.ts";
import type { Redis } from "../redis/connect.ts";
import { delay, within } from "../time/clock.ts";
import { logErrors, WORKER_OPTIONS } from "./protocol.ts";

/** What happens to a call that was taken from the queue. */
export type Verdict =
  /** It leaves the queue. */
  | { kind: "done" }
  /** It waits and is taken again; the attempt counts. */
  | { kind: "retry"; afterMs: number; reason: string }
  /** It waits and is taken again; the attempt does not count. */
  | { kind: "postpone"; untilMs: number }
  /** It waits again at the head of its queue; the attempt does not count. */
  | { kind: "back" }
  /** It stays in the queue as failed, until an operator replays or discards it. `reason` starts with its error code. */
  | { kind: "fail"; reason: string };

/** A call taken from the queue. `stored` is what was written there, not yet parsed; `attempt` counts from 1. */
export type Taken = { id: string; origin: Origin; stored: unknown; attempt: number; queuedAt: number };

/** Delivers one call and decides what happens to it. Should stop early if `hold` is lost. Must not throw. */
export type Deliver = (taken: Taken, hold: Hold) => Promise<Verdict>;

export type Consumer = {
  /** Resolves when calls are being taken. */
  ready(): Promise<void>;
  /** Takes no new calls for this long. */
  pauseFor(ms: number): Promise<void>;
  /** Takes no new calls and waits for those in hand. After `graceMs` their holds are lost. */
  close(graceMs: number): Promise<void>;
};

/** Takes calls of one origin and does with each what `deliver` decides. `redis` is from connectForWork. */
export function consume({
  redis,
  origin,
  deliver,
  concurrency,
  lockMs,
  workerName,
  log,
}: {
  redis: Redis;
  origin: Origin;
  deliver: Deliver;
  concurrency: number;
  lockMs: number;
  workerName: string;
  log: Logger;
}): Consumer {
  const holds = new Map<string, Hold>();

  // Two parameters only: with a third, BullMQ would make an AbortController for each call.
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
  logErrors(worker, origin, log);
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

/** A failed attempt. It carries its delay to the backoff strategy. */
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
    case "back":
      await job.moveToWait(token);
      throw new WaitingError();
    case "fail":
      throw new UnrecoverableError(verdict.reason);
  }
}

async function pause(worker: Worker, ms: number): Promise<void> {
  await worker.pause(true);
  await delay(ms);
  await worker.resume();
}

/** Time for aborted injections to put their calls back. */
const GIVE_BACK_MS = 1000;

async function close(worker: Worker, holds: ReadonlyMap<string, Hold>, graceMs: number): Promise<void> {
  const closed = worker.close();
  if ((await within(graceMs, closed)).kind !== "late") return;
  for (const hold of holds.values()) hold.lose("the worker stops");
  await within(GIVE_BACK_MS, closed);
}

type Listener = (reason: Error) => void;

/**
 * A worker's hold on the call it took. It can be lost, once and for good, when the worker stops or could not renew its lock.
 * It is a plain object, because an AbortSignal for each call costs more than reading and parsing the call; `signal` makes one
 * on demand.
 */
export class Hold {
  #lost: Error | undefined;
  #listeners: Set<Listener> | undefined;
  #signal: AbortSignal | undefined;

  get lost(): boolean {
    return this.#lost !== undefined;
  }

  /** Aborted when the hold is lost. */
  get signal(): AbortSignal {
    if (this.#signal !== undefined) return this.#signal;
    const controller = new AbortController();
    this.onLost((reason) => controller.abort(reason));
    this.#signal = controller.signal;
    return this.#signal;
  }

  /** Calls `listener` when the hold is lost, or at once if it already is. Returns a function that removes it. */
  onLost(listener: Listener): () => void {
    if (this.#lost !== undefined) {
      listener(this.#lost);
      return () => {};
    }
    this.#listeners ??= new Set();
    this.#listeners.add(listener);
    return () => this.#listeners?.delete(listener);
  }

  lose(reason: string): void {
    if (this.#lost !== undefined) return;
    this.#lost = new Error(reason);
    for (const listener of this.#listeners ?? []) listener(this.#lost);
  }
}
