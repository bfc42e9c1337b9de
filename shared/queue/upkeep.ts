import { AppError, messageOf } from "../errors/app-error.ts";
import { failpoint } from "../lifecycle/failpoint.ts";
import type { Logger } from "../log/logger.ts";
import { createClaimLayout } from "../redis/layout.ts";
import type { Partition } from "../redis/partition.ts";
import type { Backends } from "./backend.ts";
import { createPoll, type Polled } from "./poll.ts";
import { jobOf, originOf, type QueueName } from "./queue-name.ts";
import { openRegistry } from "./registry.ts";

type Options = {
  partition: Partition;
  serves: (queue: QueueName) => boolean;
  lockMs: number;
  log: Logger;
  pollMs?: number | undefined;
  emptyMs?: number | undefined;
};

const POLL_MS = 1000;
/** A queue that is registered again costs nothing but its metrics. */
const EMPTY_MS = 3_600_000;

/**
 * What every worker does for all of them, beside taking calls: it moves what is due, looks for what nobody was told of, takes
 * back the calls of workers that have died, and forgets queues without a call.
 */
export function createUpkeep(options: Options, backendOf: Backends) {
  const { partition, serves, log, pollMs = POLL_MS, emptyMs = EMPTY_MS } = options;
  const stalledEveryMs = stalledIntervalOf(options.lockMs);
  const claimLayout = createClaimLayout(partition);
  const poll = createPoll(partition);
  const registry = openRegistry(partition);
  let timer: NodeJS.Timeout | undefined;
  let timerAt = Number.POSITIVE_INFINITY;
  let polling = false;
  let missed = false;
  let stopped = false;
  let stalledCheckedAt = 0;
  let refused: AppError | undefined;

  /** Redis may have lost its data, and a release with another layout may have come first. */
  async function requireLayout(): Promise<void> {
    try {
      await claimLayout();
      refused = undefined;
    } catch (error) {
      if (error instanceof AppError) refused = error;
      throw error;
    }
  }

  async function once(): Promise<void> {
    await requireLayout();
    const now = Date.now();
    const polled = await poll(now);
    failpoint("producer.after_poll");
    if (polled.dueAt !== undefined) pollAt(polled.dueAt);
    if (now - stalledCheckedAt >= stalledEveryMs) {
      stalledCheckedAt = now;
      await Promise.all(polled.active.filter(serves).map(takeBack));
    }
    for (const queue of toForget(polled, now - emptyMs)) {
      if (await registry.remove(queue)) failpoint("producer.after_removed");
    }
  }

  async function takeBack(queue: QueueName): Promise<void> {
    for (const callId of await backendOf(queue).moveStalledJobsToWait()) {
      log.warn("call.taken_back", { callId, origin: originOf(queue), job: jobOf(queue) });
    }
  }

  async function onTime(): Promise<void> {
    timerAt = Number.POSITIVE_INFINITY;
    pollAt(Date.now() + pollMs);
    if (polling) {
      missed = true;
      return;
    }
    polling = true;
    await once().catch((error: unknown) => log.warn("queue.error", { reason: messageOf(error) }));
    polling = false;
    if (missed) pollAt(Date.now());
    missed = false;
  }

  /** Polls at this time (unix ms), unless it would do so before. */
  function pollAt(at: number): void {
    if (stopped || at >= timerAt) return;
    clearTimeout(timer);
    timerAt = at;
    timer = setTimeout(() => void onTime(), Math.max(1, at - Date.now()));
  }

  return {
    pollAt,

    /** Whether nothing may be taken, because Redis holds another release's layout. */
    get refused(): boolean {
      return refused !== undefined;
    },

    /** Resolves after the first look. Throws `start.layout_mismatch`. */
    async start(): Promise<void> {
      await once();
      pollAt(Date.now() + pollMs);
    },

    stop(): void {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

/** How often calls in hand are looked at. One that was in hand at the look before, and whose lock has run out, is taken back. */
export function stalledIntervalOf(lockMs: number): number {
  return Math.max(500, Math.round(lockMs / 4));
}

function toForget({ empty }: Polled, endedBefore: number): QueueName[] {
  return empty.filter(({ endedAt }) => endedAt < endedBefore).map(({ queue }) => queue);
}
