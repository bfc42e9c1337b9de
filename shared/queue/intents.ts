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
 * An intent is a pause of a job or the state of an endpoint, as an operator wants it. Intents are written to partition 0. The scripts that add
 * and take calls read them in their own partition, so every other partition follows partition 0: a script copies all intents there, with
 * the version of the newest change. A copy of a lower version changes nothing, so neither order nor repeats of copies matter.
 */

/** Limits of what is known of pauses and holds that have ended: the jobs, and the time since the newest. */
export const RESUMED = { max: 1000, keptMs: 7 * 86_400_000 };

/** How many held calls one step releases. */
export const RELEASED_AT_ONCE = 100;

/** In place of a version: Redis has lost what it knew, and no process has claimed it since. */
const EMPTIED = -2;

const READ = defineScript({
  source: readIntentsLua,
  keys: "intents, jobs, endpoints, layout",
  args: "prefix, known, followed",
  constants: { EMPTIED },
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
  /** As stored, by path. */
  readonly settings: readonly (readonly [path: string, setting: string])[];
};

/** A change, and the partitions that do not follow it yet. They do before a producer takes calls from them. */
export type Told = { readonly changed: boolean; readonly unreached: readonly number[] };

/** Partition 0 has answered by then, or counts as away. A command may wait for Redis to return. */
const ANSWER_MS = 2000;

/** Whether the data of partition 0 may be believed. */
type Control = Pick<DurableRedis, "firstCheck" | "isUsable">;

/** Has all partitions follow partition 0, and remembers what that has said last. */
export function openIntents(partitions: Partitions) {
  const { control } = partitions;
  const reads = partitions.map(createRead);
  const follows = partitions.map(createFollow);
  let last: Intents | undefined;

  async function read(followed = 0): Promise<Intents> {
    const found = await reads.control(last, followed);
    // A reply to an earlier question may come later.
    if (last === undefined || found.version > last.version) last = found;
    return found;
  }

  /**
   * The intents in partition 0. While that cannot be used, they are those read last, or what operators have said to the partition of this
   * index since.
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
   * Makes a partition follow what `readFor` gives, which is asked once the version is known that the partition follows, and resolves with
   * that.
   */
  async function followIn(index: number, readFor: (followed: number) => Promise<Intents>): Promise<Intents> {
    const { followed, follow } = follows.at(index);
    const before = await followed();
    const intents = await readFor(before.version);
    await follow(intents, before);
    return intents;
  }

  function followSaid(index: number, said: Promise<Intents>): Promise<Intents> {
    return followIn(index, async (followed) => {
      const intents = await said;
      return intents.version < followed ? await read(followed) : intents;
    });
  }

  return {
    read,

    /**
     * Makes another partition follow partition 0, if that can be used, and resolves with what it follows. Throws if partition 0 cannot be used
     * and has never been read.
     */
    sync(index: number, server: Control): Promise<Intents> {
      return followIn(index, (followed) => newest(index, followed, server));
    },

    /** Makes all partitions follow what was said just now. Resolves with the indexes of those that could not be reached. */
    async spread(): Promise<number[]> {
      if (partitions.all.length === 1) return [];
      const said = read();
      said.catch(() => {});
      const { unreached } = await askReachable(partitions, async ({ redis }, index) => {
        if (index === 0) return; // it is written there
        assertReady(redis);
        await followSaid(index, said);
      });
      return [...unreached.keys()];
    },
  };
}

/**
 * If partition 0 has lost the newest change, has it follow the partition that knows that change, and resolves with its index. It must come
 * before a process may believe partition 0: the other partitions would then follow that.
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

/** Reads what a partition follows; `known` if it is still that. */
function createRead({ redis, keys, prefix }: Partition) {
  const run = READ.on(redis);
  const { intents, jobs, endpoints, layout } = keys;
  const touched = { intents, jobs, endpoints, layout };
  return async (known: Intents | undefined, followed: number): Promise<Intents> => {
    const words = { prefix, known: known?.version ?? -1, followed };
    const [version, pauses, settings] = await run(touched, words);
    if (version === EMPTIED) throw new AppError("queue.unavailable", { reason: NOT_READ });
    return known?.version === version ? known : { version, pauses, settings };
  };
}

function createFollow({ redis, keys, prefix }: Partition) {
  const run = FOLLOW.on(redis);
  const { intents, jobs, endpoints, resumed } = keys;
  return {
    /** The version that the partition follows, and whether calls are left to be released. */
    async followed() {
      const [version, left] = await redis.hmget(intents, "version", "left");
      return { version: Number(version ?? 0), isDone: (left ?? "0") === "0" };
    },

    async follow(
      { version, pauses, settings }: Intents,
      followed: { version: number; isDone: boolean },
    ): Promise<void> {
      if (followed.version === version && followed.isDone) return;
      const told = [
        ...pauses.map(([name, at, by, reason]) => ({ name, at, by, reason, setting: "" })),
        ...settings.map(([name, setting]) => ({ name, at: 0, by: "", reason: "", setting })),
      ];
      const touched = { intents, jobs, endpoints, resumed };
      let left = 1;
      while (left > 0) left = await run(touched, { prefix, version, intents: told });
    },
  };
}
