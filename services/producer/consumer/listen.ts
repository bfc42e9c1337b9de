import { failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import { delay, within } from "../../../shared/platform/time/clock.ts";
import type { QueueName } from "../../../shared/queue/queue-name.ts";
import { connectBeside, type Redis } from "../../../shared/redis/connect.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import { toScored } from "../../../shared/redis/pages.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { nothing } from "../../../shared/redis/reply.ts";
import announceLaterLua from "./announce-later.lua";
import announceNowLua from "./announce-now.lua";
import type { Source, Turns } from "./turns.ts";

/**
 * Longest time for which Redis blocks the connection until it answers without a name. A connection that is silent for much
 * longer counts as dead.
 */
const BLOCK_SECS = 5;
const SILENT_MS = BLOCK_SECS * 1000 + 2000;
const RETRY_PAUSE_MS = 1000;
const REFUSED_PAUSE_MS = 1000;

/**
 * Maximum number of names that a worker pops at once, and at most one for each free slot. So a worker that starts with many
 * free slots needs fewer round trips.
 */
const NAMES_MAX = 16;

/**
 * Pause of a worker that has popped the name of the same queue twice without being able to use it. Other workers can pop the
 * name during the pause.
 */
const UNUSABLE_PAUSE_MS = 50;
/** Delay after which the name of a queue that this worker cannot use is due again. */
const PASSED_ON_MS = 1000;

type Options<One extends Source> = {
  partition: Partition;
  serves: (queue: QueueName) => boolean;
  sourceOf: (queue: QueueName) => One;
  turns: Turns<One>;
  /** Takes calls from the queues that may have some. */
  fill: () => void;
  /**
   * `isRefused` is true if Redis is reachable but must not be used, for example because of wrong settings. No call may be
   * taken then.
   */
  server: { readonly isRefused: boolean };
};

/**
 * Waits on its own connection for names of queues with calls, while slots are free. A name that is popped from `wake` reaches
 * no other worker, so a worker that cannot use it puts it back.
 */
export function createListen<One extends Source>(options: Options<One>) {
  const { partition, serves, sourceOf, turns, fill, server } = options;
  const { redis } = partition;
  const announce = createAnnounce(partition);
  const blocking = connectToBlock(redis);
  const passedOn = new Set<QueueName>();
  let stopped = false;

  async function once(): Promise<void> {
    await turns.untilFreeSlot();
    if (stopped) return;
    if (server.isRefused) return delay(REFUSED_PAUSE_MS);
    const queues = await popQueues(blocking, partition, Math.min(turns.freeSlots, NAMES_MAX));
    if (queues.length === 0) return;
    failpoint("producer.after_wake");
    for (const queue of queues.filter(serves)) turns.add(sourceOf(queue));
    fill();
    await putBack(queues.filter((queue) => !(serves(queue) && turns.isFetching(sourceOf(queue)))));
  }

  /**
   * Puts the names of queues back for other workers. If this worker still has a free slot, it continues to listen and would
   * pop the names again at once. So it adds them to `due`, from which they return to `wake` after a delay. If a name comes
   * back to this worker a second time, the worker pauses.
   */
  async function putBack(queues: readonly QueueName[]): Promise<void> {
    if (turns.freeSlots === 0) {
      for (const queue of queues.filter(serves)) turns.remove(sourceOf(queue));
      await announce.now(queues);
      return;
    }
    await announce.later(queues);
    if (!queues.some((queue) => passedOn.has(queue))) {
      for (const queue of queues) passedOn.add(queue);
      return;
    }
    passedOn.clear();
    await delay(UNUSABLE_PAUSE_MS);
  }

  async function listen(): Promise<void> {
    while (!stopped) await once().catch(() => (stopped ? undefined : delay(RETRY_PAUSE_MS)));
  }

  return {
    start: () => void listen(),
    stop(): void {
      stopped = true;
      blocking.disconnect();
    },
  };
}

const ANNOUNCE_NOW = defineScript({
  source: announceNowLua,
  keys: "wake",
  args: "...queues",
  proof: "expendable",
  reply: nothing,
});

const ANNOUNCE_LATER = defineScript({
  source: announceLaterLua,
  keys: "due",
  args: "ms, ...queues",
  proof: "expendable",
  reply: nothing,
});

/** Creates the functions that put back the names of queues that this worker cannot use. */
export function createAnnounce({ redis, keys }: Partition) {
  const [announceNow, announceLater] = [ANNOUNCE_NOW.on(redis), ANNOUNCE_LATER.on(redis)];
  return {
    async now(queues: readonly QueueName[]): Promise<void> {
      if (queues.length > 0) await announceNow({ wake: keys.wake }, { queues });
    },
    /** Puts the names back after a delay. By then this worker may be able to use the queues. */
    async later(queues: readonly QueueName[], ms = PASSED_ON_MS): Promise<void> {
      if (queues.length > 0) await announceLater({ due: keys.due }, { ms, queues });
    },
  };
}

/**
 * Opens a second connection with the same options, for blocking commands. No command is repeated after a reconnect, because
 * the caller may no longer wait for its reply.
 */
function connectToBlock(redis: Redis): Redis {
  return connectBeside(redis, {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  });
}

/** Pops the names that have been in `wake` the longest. Resolves with an empty list after some seconds without a name. */
async function popQueues(blocking: Redis, { keys }: Partition, most: number): Promise<QueueName[]> {
  const first = blocking.bzpopmin(keys.wake, BLOCK_SECS);
  const more = most > 1 ? blocking.zpopmin(keys.wake, most - 1) : [];
  const outcome = await within(SILENT_MS, Promise.all([first, more]));
  if (outcome.kind === "failed") throw outcome.error;
  if (outcome.kind === "late") {
    blocking.disconnect(true);
    return [];
  }
  const [one, others] = outcome.result;
  return [...(one === null ? [] : [one[1]]), ...toScored(others).map(({ member }) => member)];
}
