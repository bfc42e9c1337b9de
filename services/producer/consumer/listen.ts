import { failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import { delay, within } from "../../../shared/platform/time/clock.ts";
import type { QueueName } from "../../../shared/queue/queue-name.ts";
import { connectBeside, type Redis } from "../../../shared/redis/connect.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import { toScored } from "../../../shared/redis/pages.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { nothing } from "../../../shared/redis/reply.ts";
import tellLaterLua from "./tell-later.lua";
import tellNowLua from "./tell-now.lua";
import type { Source, Turns } from "./turns.ts";

/** Redis answers a blocked connection at least so often. One that is silent for longer is dead. */
const BLOCK_SECS = 5;
const SILENT_MS = BLOCK_SECS * 1000 + 2000;
const RETRY_PAUSE_MS = 1000;
const REFUSED_PAUSE_MS = 1000;

/** So many names are taken at once, if as many slots are free: a worker that begins learns of its queues in few round trips. */
const NAMES_MAX = 16;

/** A worker that was told a second time of a queue that it cannot use pauses for this long. */
const UNUSABLE_PAUSE_MS = 50;
/** The name of such a queue is due again after this long. */
const PASSED_ON_MS = 1000;

type Options<One extends Source> = {
  partition: Partition;
  serves: (queue: QueueName) => boolean;
  sourceOf: (queue: QueueName) => One;
  turns: Turns<One>;
  /** Takes from the queues that may have calls. */
  fill: () => void;
  /** While it is refused nothing may be taken at all. */
  server: { readonly isRefused: boolean };
};

/**
 * Waits on a connection of its own to be told of queues with calls, while there is room for one. A name that is popped from
 * `wake` is told to nobody else, so a worker that cannot use it passes it on.
 */
export function createListen<One extends Source>(options: Options<One>) {
  const { partition, serves, sourceOf, turns, fill, server } = options;
  const { redis } = partition;
  const tell = createTell(partition);
  const blocking = connectToBlock(redis);
  const passedOn = new Set<QueueName>();
  let stopped = false;

  async function once(): Promise<void> {
    await turns.untilFreeSlot();
    if (stopped) return;
    if (server.isRefused) return delay(REFUSED_PAUSE_MS);
    const queues = await nextWoken(blocking, partition, Math.min(turns.freeSlots, NAMES_MAX));
    if (queues.length === 0) return;
    failpoint("producer.after_wake");
    for (const queue of queues.filter(serves)) turns.add(sourceOf(queue));
    fill();
    await putBack(queues.filter((queue) => !(serves(queue) && turns.isFetching(sourceOf(queue)))));
  }

  /**
   * Tells another worker of the queues. If this one has a free slot it goes on listening, and would pop the names again at once: so
   * they are due only after a while, and if one comes a second time this worker pauses.
   */
  async function putBack(queues: readonly QueueName[]): Promise<void> {
    if (turns.freeSlots === 0) {
      for (const queue of queues.filter(serves)) turns.forget(sourceOf(queue));
      await tell.now(queues);
      return;
    }
    await tell.later(queues);
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

const TELL_NOW = defineScript({
  source: tellNowLua,
  keys: "wake",
  args: "...queues",
  proof: "expendable",
  reply: nothing,
});

const TELL_LATER = defineScript({
  source: tellLaterLua,
  keys: "due",
  args: "ms, ...queues",
  proof: "expendable",
  reply: nothing,
});

/** Tells workers of queues that this one was told of and cannot use. */
export function createTell({ redis, keys }: Partition) {
  const [tellNow, tellLater] = [TELL_NOW.on(redis), TELL_LATER.on(redis)];
  return {
    async now(queues: readonly QueueName[]): Promise<void> {
      if (queues.length > 0) await tellNow({ wake: keys.wake }, { queues });
    },
    /** In a while, when this one may have room. */
    async later(queues: readonly QueueName[], ms = PASSED_ON_MS): Promise<void> {
      if (queues.length > 0) await tellLater({ due: keys.due }, { ms, queues });
    },
  };
}

/** A connection like this one, for waiting. No command is sent again, since nobody may wait for its answer any more. */
function connectToBlock(redis: Redis): Redis {
  return connectBeside(redis, {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  });
}

/** The queues that have waited longest to be told of. None if there was none for some seconds. */
async function nextWoken(blocking: Redis, { keys }: Partition, most: number): Promise<QueueName[]> {
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
