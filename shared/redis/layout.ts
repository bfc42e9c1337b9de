import { createRequire } from "node:module";
import { z } from "zod";
import { AppError } from "../platform/errors/app-error.ts";
import { parseJson } from "../platform/text/parse-json.ts";
import claimLayoutLua from "./claim-layout.lua";
import type { Redis } from "./connect.ts";
import { defineScript } from "./define-script.ts";
import type { RunnerKeys } from "./keys.ts";
import type { Partition } from "./partition.ts";
import { proverOf } from "./prover.ts";
import { text } from "./reply.ts";
import { fromScript, isUnreadable } from "./unreadable.ts";

/**
 * Number of the layout of the keys in keys.ts. docs/decisions.md says which changes raise it: those that alter what is settled, voided,
 * refunded or run again.
 */
export const LAYOUT = 6;

/** Number of the layout of the runner's keys, which are never emptied. */
export const RUNNER_LAYOUT = 1;

/** Found by the package's own name, so from the sources and from dist/ alike. */
const { version } = createRequire(import.meta.url)("postern/package.json") as { version: string };

export const RELEASE = version;

/**
 * What lies under the key of the layout: `release` wrote it. `durability` is there once a process has had its writes replicated. The
 * runner's keys are in no partition.
 */
const Stored = z.object({
  layout: z.int(),
  release: z.string(),
  partition: z.object({ index: z.int(), count: z.int() }).optional(),
  durability: z.literal("replicated").optional(),
});

type Place = Pick<Partition, "index" | "count">;

/** The words with which a process claims its layout. */
function claimOf(layout: number, replicated: boolean, place?: Place) {
  const partition = place && { index: place.index, count: place.count };
  const own = {
    layout,
    release: version,
    ...(partition && { partition }),
    ...(replicated && { durability: "replicated" as const }),
  };
  return { own: JSON.stringify(own satisfies z.infer<typeof Stored>), layout, replicated, partition };
}

const isReplicated = (redis: Redis): boolean => proverOf(redis) !== undefined;

const CLAIM = defineScript({
  source: claimLayoutLua,
  keys: "layout, sign",
  args: "own, layout, replicated, wants",
  proof: "expendable",
  reply: text,
});

/**
 * For processes that write. What this returns writes the own layout where there is none, and throws `start.layout_mismatch`
 * if another is there. Both are one step, so of two releases that start on an empty Redis one is refused. Call it on each
 * connection before the first write, since Redis may have lost its data. With `isChecked`, the data has been found to have an id.
 * If Redis has lost it meanwhile, this throws `queue.unavailable` and writes nothing: a layout without an id is that of a release without ids.
 */
export function createClaimLayout(
  partition: Partition,
  { isChecked = false }: { isChecked?: boolean } = {},
): () => Promise<void> {
  const { redis, keys } = partition;
  const claim = CLAIM.on(redis);
  const touched = { layout: keys.layout, sign: keys.deployment };
  const own = claimOf(LAYOUT, isReplicated(redis), partition);
  const wants = isChecked ? "present" : "any";
  return async () => {
    const found = await claim(touched, { ...own, wants }).catch(unlessUnreadable);
    if (found === "refused")
      throw new AppError("queue.unavailable", { reason: "Redis has lost its data since it was checked" });
    requireOwn(found, own, drain);
  };
}

/**
 * Claims the layout of the runner's keys, which keep calls from running twice. Keys without a layout are refused too, because their writer
 * is unknown. A runner that has found its layout before writes it again: Redis has lost its data, and a call may have come first.
 */
export function createClaimRunnerLayout(redis: Redis, keys: RunnerKeys): () => Promise<void> {
  const claim = CLAIM.on(redis);
  const touched = { layout: keys.layout, sign: keys.calls };
  const own = claimOf(RUNNER_LAYOUT, isReplicated(redis));
  let hasHeld = false;
  return async () => {
    const wants = hasHeld ? "any" : "absent";
    const found = await claim(touched, { ...own, wants }).catch(unlessUnreadable);
    requireOwn(found, own, keepKeys);
    hasHeld = true;
  };
}

/** For commands, which must not claim an empty Redis: throws `start.layout_mismatch` if another layout is there. */
export async function checkLayout(partition: Partition): Promise<void> {
  const { redis, keys } = partition;
  const found = await redis.get(keys.layout).catch(unlessUnreadable);
  if (found !== null) requireOwn(found, claimOf(LAYOUT, isReplicated(redis), partition), drain);
}

const WEAKER =
  "a failover can lose what this process writes: other processes of this deployment have all replicas confirm their writes. To fix this, " +
  'set durability = "replicated" in postern.toml, as they do (docs/redis.md)';

/** What is no string is another layout too. */
function unlessUnreadable(error: unknown): string {
  if (isUnreadable(fromScript(error))) return "";
  throw error;
}

function requireOwn(
  stored: string,
  { layout: own, replicated, partition }: ReturnType<typeof claimOf>,
  remedyWith: (release: string) => string,
): void {
  const found = Stored.safeParse(parseJson(stored)).data;
  if (found?.layout === own) {
    requirePlace(found.partition, partition);
    if (found.durability === undefined || replicated) return;
    throw new AppError("start.redis_not_durable", { reason: WEAKER });
  }
  const [what, release] =
    found === undefined
      ? ["keys of an unknown layout", "the release that wrote them"]
      : [`layout ${found.layout}, written by release ${found.release}`, `release ${found.release}`];
  throw new AppError("start.layout_mismatch", {
    reason: `Redis holds ${what}, but this release (${version}) needs layout ${own}. ${remedyWith(release)}`,
  });
}

function requirePlace(found: Place | undefined, own: Place | undefined): void {
  if (own === undefined || (found?.index === own.index && found.count === own.count)) return;
  const what = found === undefined ? "keys of no partition" : `partition ${found.index} of ${found.count}`;
  throw new AppError("start.layout_mismatch", {
    reason:
      `Redis holds ${what}, but [redis] makes it partition ${own.index} of ${own.count}. Both stay as they were at the first start: ` +
      "correct partitions in postern.toml (docs/redis.md#partitions)",
  });
}

const drain = (release: string) =>
  `Drain Redis with ${release}: stop its ` +
  "webhooks gateways. Run its producers and `postern x402 --drain` until the log has `drain.done` and `postern status` " +
  "shows empty queues. Then empty Redis. Until then, do not start this release on another Redis if it sells jobs to the " +
  "same pay_to: a payment could be sold twice (docs/upgrade.md)";

const keepKeys = (release: string) =>
  `Run ${release} there, or give this runner a Redis of its own ([runner.redis] url). Do not delete the runner's keys: ` +
  "they keep calls from running twice (docs/upgrade.md)";
