import { AppError } from "../platform/errors/app-error.ts";
import { within } from "../platform/time/clock.ts";
import { defineScript } from "../redis/define-script.ts";
import type { DurableRedis } from "../redis/durable.ts";
import { askAll, askOne, askReachable } from "../redis/merge.ts";
import type { Partition, Partitions } from "../redis/partition.ts";
import { assertReady } from "../redis/ready.ts";
import { integer, list, numeric, text, tuple } from "../redis/reply.ts";
import followIntentsLua from "./follow-intents.lua";
import { QUEUE_CONSTANTS } from "./lua-constants.ts";
import readIntentsLua from "./read-intents.lua";

/*
 * An intent is a pause of a job or the state of an endpoint, set by an operator. Intents are written to partition 0. The
 * scripts that add and take calls can read only the intents in their own partition. So a script copies all intents from
 * partition 0 to every other partition, with the version of the newest change. A copy with a lower version than the partition
 * already has changes nothing, so copies may arrive repeatedly or out of order.
 */

/** Limits of the hash that stores when calls were last resumed (note-resumed.lua): number of gates, and expiry. */
export const RESUMED = { max: 1000, keptMs: 7 * 86_400_000 };

/** Number of held calls that one step releases. */
export const RELEASED_AT_ONCE = 100;

/** Reply in place of a version. It says that Redis has lost all its data, and no process has set it up again. */
const LOST_DATA = -2;

const READ = defineScript({
  source: readIntentsLua,
  keys: "intents, jobs, endpoints, layout",
  args: "prefix, known, followed",
  constants: { LOST_DATA },
  proof: "expendable",
  reply: tuple(integer, list(tuple(text, numeric, text, text)), list(tuple(text, text))),
});

const FOLLOW = defineScript({
  source: followIntentsLua,
  keys: "intents, jobs, endpoints, resumed",
  args: "prefix, version, ...intents(name, at, by, reason, setting)",
  constants: { ...QUEUE_CONSTANTS, RESUMED, RELEASED_AT_ONCE },
  proof: "needed",
  reply: integer,
});

type Intents = {
  readonly version: number;
  readonly pauses: readonly (readonly [gate: string, at: number, by: string, reason: string])[];
  /** Settings of the endpoints as JSON, by the endpoint's path. */
  readonly settings: readonly (readonly [path: string, setting: string])[];
};

/**
 * Outcome of an operation: whether it changed anything, and the partitions that it did not reach. A producer copies the
 * change to such a partition before it takes calls there.
 */
export type ChangeOutcome = { readonly changed: boolean; readonly unreached: readonly number[] };

/**
 * Timeout after which partition 0 counts as away. The client keeps a command until Redis returns, so without a timeout it may
 * wait forever.
 */
const ANSWER_MS = 2000;

/** Says whether the data of partition 0 can be trusted. */
type Control = Pick<DurableRedis, "firstCheck" | "isUsable">;

/** Copies intents from partition 0 to all partitions, and caches the intents that were read last. */
export function openIntents(partitions: Partitions) {
  const { control } = partitions;
  const reads = partitions.map(createRead);
  const follows = partitions.map(createFollow);
  let last: Intents | undefined;

  async function read(followed = 0): Promise<Intents> {
    const found = await reads.control(last, followed);
    // Replies may arrive out of order, so only a newer version replaces the last one.
    if (last === undefined || found.version > last.version) last = found;
    return found;
  }

  /**
   * Reads the intents of partition 0. While it cannot be used, returns the cached intents. If partition `index` has copied a
   * newer version (`followed`) than the cached one, reads its intents instead.
   */
  async function newest(index: number, followed: number, server: Control): Promise<Intents> {
    if (control.redis.status === "ready") {
      if (last === undefined) await within(ANSWER_MS, server.firstCheck);
      const outcome = server.isUsable && (await within(ANSWER_MS, read(followed)));
      if (outcome && outcome.kind === "done") return outcome.result;
    }
    if (last !== undefined && followed > last.version) last = await reads.at(index)(undefined, 0);
    if (last !== undefined) return last;
    throw new AppError("queue.unavailable", { reason: NOT_READ });
  }

  /**
   * Brings a partition up to date. Calls `readFor` with the version that the partition has, copies the intents that `readFor`
   * returns to the partition, and resolves with them.
   */
  async function followIn(index: number, readFor: (followed: number) => Promise<Intents>): Promise<Intents> {
    const { followed, follow } = follows.at(index);
    const before = await followed();
    const intents = await readFor(before.version);
    await follow(intents, before);
    return intents;
  }

  function followRead(index: number, reading: Promise<Intents>): Promise<Intents> {
    return followIn(index, async (followed) => {
      const intents = await reading;
      return intents.version < followed ? await read(followed) : intents;
    });
  }

  return {
    read,

    /**
     * Copies the intents of partition 0 to another partition, and resolves with them. If partition 0 cannot be used, copies
     * the cached intents. Throws if no intents were ever read.
     */
    sync(index: number, server: Control): Promise<Intents> {
      return followIn(index, (followed) => newest(index, followed, server));
    },

    /**
     * Copies the newest intents to all partitions, after a change. Resolves with the indexes of the partitions that could
     * not be reached.
     */
    async spread(): Promise<number[]> {
      if (partitions.all.length === 1) return [];
      const reading = read();
      reading.catch(() => {});
      const { unreached } = await askReachable(partitions, async ({ redis }, index) => {
        if (index === 0) return; // partition 0 already has the change
        assertReady(redis);
        await followRead(index, reading);
      });
      return [...unreached.keys()];
    },
  };
}

/**
 * If partition 0 has lost the newest change, copies that change back from the partition that has it, and resolves with that
 * partition's index. This must run before any process trusts partition 0. Otherwise the other partitions would copy its old
 * state, and the newest change would be lost.
 */
export async function restoreIntents(partitions: Partitions): Promise<number | undefined> {
  const { followed, follow } = createFollow(partitions.control);
  const own = await followed();
  const versions = await askAll(partitions, async (each) => (await createFollow(each).followed()).version);
  const newest = versions.indexOf(Math.max(...versions));
  if (newest === 0) return undefined;
  await follow(await askOne(partitions, newest, (each) => createRead(each)(undefined, 0)), own);
  return newest;
}

const NOT_READ = "partition 0, which knows what is paused, cannot be reached";

/** Creates the function that reads the intents of a partition. It returns `known` if the version has not changed. */
function createRead({ redis, keys, prefix }: Partition) {
  const run = READ.on(redis);
  const { intents, jobs, endpoints, layout } = keys;
  const touched = { intents, jobs, endpoints, layout };
  return async (known: Intents | undefined, followed: number): Promise<Intents> => {
    const words = { prefix, known: known?.version ?? -1, followed };
    const [version, pauses, settings] = await run(touched, words);
    if (version === LOST_DATA) throw new AppError("queue.unavailable", { reason: NOT_READ });
    return known?.version === version ? known : { version, pauses, settings };
  };
}

function createFollow({ redis, keys, prefix }: Partition) {
  const run = FOLLOW.on(redis);
  const { intents, jobs, endpoints, resumed } = keys;
  return {
    /** Returns the version of the partition's intents, and whether all held calls of enabled endpoints are released. */
    async followed() {
      const [version, left] = await redis.hmget(intents, "version", "left");
      return { version: Number(version ?? 0), isDone: (left ?? "0") === "0" };
    },

    async follow(
      { version, pauses, settings }: Intents,
      followed: { version: number; isDone: boolean },
    ): Promise<void> {
      if (followed.version === version && followed.isDone) return;
      const rows = [
        ...pauses.map(([name, at, by, reason]) => ({ name, at, by, reason, setting: "" })),
        ...settings.map(([name, setting]) => ({ name, at: 0, by: "", reason: "", setting })),
      ];
      const touched = { intents, jobs, endpoints, resumed };
      let left = 1;
      while (left > 0) left = await run(touched, { prefix, version, intents: rows });
    },
  };
}
