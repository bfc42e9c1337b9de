import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { delay, settled } from "../../../shared/platform/time/clock.ts";
import type { Backends } from "../../../shared/queue/backend.ts";
import { createAreConfigured } from "../../../shared/queue/limits.ts";
import { callFields, type QueueName } from "../../../shared/queue/queue-name.ts";
import { openRegistry } from "../../../shared/queue/registry.ts";
import { failureOf, isLasting, unlessRedis } from "../../../shared/redis/failure.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { canProve } from "../../../shared/redis/prover.ts";
import type { LostTakes } from "./lost-takes.ts";
import { createPoll } from "./poll.ts";

type Options = {
  partition: Partition;
  server: { readonly isUsable: boolean };
  serves: (queue: QueueName) => boolean;
  /** Runs before the first call is taken, and again if Redis has lost its data. */
  prepare?: (() => Promise<void>) | undefined;
  lockMs: number;
  log: Logger;
  pollMs?: number | undefined;
  emptyMs?: number | undefined;
};

const POLL_MS = 1000;
/** Pause before a failed first poll is repeated. */
const START_PAUSE_MS = 1000;
const EMPTY_MS = 3_600_000;

/**
 * Periodic work that every worker does for all workers. It moves due queues to `wake`, and finds queues with calls whose
 * names are missing there (frame.lua explains `wake`). It also takes back the calls of dead workers, and removes empty
 * queues.
 */
export function createUpkeep(options: Options, backendOf: Backends, lostTakes: LostTakes) {
  const { partition, server, serves, prepare, log, pollMs = POLL_MS, emptyMs = EMPTY_MS } = options;
  const stalledEveryMs = stalledIntervalOf(options.lockMs);
  const areConfigured = createAreConfigured(partition);
  const poll = createPoll(partition);
  const registry = openRegistry(partition);
  const due = createAlarm(moveDue, log);
  const polls = createAlarm(pollAgain, log);
  let stalledCheckedAt = Number.NEGATIVE_INFINITY;
  let isPrepared = false;
  let stopped = false;
  /**
   * Postpones the next check for stalled calls when the connection is lost, as in a failover. So each worker has time to
   * return the calls that it has not begun (lost-takes.ts). Otherwise they could be taken back first, as calls of a dead
   * worker.
   */
  const onClose = (): void => {
    stalledCheckedAt = performance.now();
  };
  partition.redis.on("close", onClose);

  async function moveDue(): Promise<void> {
    const nextInMs = await poll.moveDue();
    failpoint("producer.after_poll");
    if (nextInMs !== undefined) due.after(nextInMs);
  }

  async function once(): Promise<void> {
    const isKept = isPrepared && (await areConfigured());
    if (!server.isUsable) return; // Redis may have been replaced meanwhile
    if (prepare !== undefined && !isKept) await prepare();
    isPrepared = true;
    await moveDue();
    const { active, empty } = await poll.look();
    const isClear = await lostTakes.release(active);
    const now = performance.now();
    if (isClear && now - stalledCheckedAt >= stalledEveryMs && (await canProve(partition.redis))) {
      stalledCheckedAt = now;
      await Promise.all(active.filter(serves).map(takeBack));
    }
    for (const { queue, idleMs } of empty) {
      if (idleMs > emptyMs && (await registry.remove(queue))) failpoint("producer.after_removed");
    }
  }

  /** Polls once. Returns false if the poll failed for a temporary reason. */
  async function hasPolled(): Promise<boolean> {
    const polled = await settled(once());
    if (polled.kind === "done") return true;
    if (failureOf(polled.error) === undefined || isLasting(polled.error)) throw unlessRedis(polled.error);
    return false;
  }

  async function pollAgain(): Promise<void> {
    polls.after(pollMs);
    if (server.isUsable) await once();
  }

  async function takeBack(queue: QueueName): Promise<void> {
    for (const callId of await backendOf(queue).moveStalledJobsToWait()) {
      log.warn("call.lease_expired", callFields(callId, queue));
    }
  }

  return {
    /** Schedules a move of due queues to `wake`, after this many ms. */
    dueIn: due.after,

    /**
     * Resolves after the first successful poll. Repeats polls that fail for a temporary reason, and throws any other
     * error.
     */
    async start(): Promise<void> {
      while (!(server.isUsable && (await hasPolled())) && !stopped) await delay(START_PAUSE_MS);
      polls.after(pollMs);
    },

    stop(): void {
      stopped = true;
      partition.redis.off("close", onClose);
      due.stop();
      polls.stop();
    },
  };
}

/** Minimum time between two runs of an alarm, so that many queues that become due one after the other are moved together. */
const ALARM_GAP_MS = 20;

/**
 * Creates a timer that runs `work` at the earliest requested time, never twice at once. It uses the process's monotonic
 * clock.
 */
function createAlarm(work: () => Promise<void>, log: Logger) {
  let timer: NodeJS.Timeout | undefined;
  let setFor = Number.POSITIVE_INFINITY;
  let ranAt = Number.NEGATIVE_INFINITY;
  let isRunning = false;
  let stopped = false;

  function at(time: number): void {
    if (stopped || time >= setFor) return;
    clearTimeout(timer);
    setFor = time;
    if (isRunning) return;
    const now = performance.now();
    timer = setTimeout(() => void run(), Math.max(1, time - now, ranAt + ALARM_GAP_MS - now));
  }

  async function run(): Promise<void> {
    isRunning = true;
    ranAt = performance.now();
    setFor = Number.POSITIVE_INFINITY;
    await work().catch((error: unknown) => log.warn("queue.error", { reason: messageOf(error) }));
    isRunning = false;
    const next = setFor;
    setFor = Number.POSITIVE_INFINITY;
    at(next);
  }

  return {
    after: (ms: number) => at(performance.now() + ms),
    stop(): void {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

/**
 * Interval of the checks for stalled calls. A call is taken back if it was in flight at the previous check and its lock has
 * expired.
 */
export function stalledIntervalOf(lockMs: number): number {
  return Math.max(500, Math.round(lockMs / 4));
}
