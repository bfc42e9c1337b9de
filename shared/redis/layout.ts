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
 * Number of the layout of the keys in keys.ts. It is raised only for changes after which data of the old layout would be
 * settled, voided, refunded or run again differently (docs/decisions.md).
 */
export const LAYOUT = 6;

/**
 * Number of the layout of the runner's keys. It is counted separately, because these keys are kept during an upgrade, while
 * the other keys are emptied.
 */
export const RUNNER_LAYOUT = 1;

/** Finds package.json by the package's name, so that sources and dist/ read the same file. */
const { version } = createRequire(import.meta.url)("postern/package.json") as { version: string };

export const RELEASE = version;

/**
 * The stored layout. `release` is the release that wrote it. `durability` is set once a process with durability `replicated`
 * has claimed the layout. The layout of the runner's keys has no `partition`.
 */
const Stored = z.object({
  layout: z.int(),
  release: z.string(),
  partition: z.object({ index: z.int(), count: z.int() }).optional(),
  durability: z.literal("replicated").optional(),
});

type Place = Pick<Partition, "index" | "count">;

/** Arguments for the script with which a process claims its layout. */
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
 * Creates the function with which a process claims the layout before it writes. If the data has no layout, the claim writes
 * the layout of this release. If the data has another layout, the claim throws `start.layout_mismatch`. One script does both,
 * so that if two releases start on an empty Redis at once, one of them is refused. Run the claim on each new connection
 * before the first write, because Redis may have lost its data.
 *
 * With `isChecked`, the data had an id at the last check. If the data now has neither layout nor id, Redis has lost it: the
 * claim throws `queue.unavailable` and writes nothing. Data with a layout but no id is from a release without ids.
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
 * Creates the function with which a runner claims the layout of its keys, which keep calls from running twice. If there are
 * calls but no layout, the claim is refused, because it is unknown which release wrote them. But if a runner that has already
 * claimed the layout finds none, Redis has lost its data. The runner then writes the layout again even if there are calls,
 * because another runner may have stored a call since the loss.
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

/**
 * Checks the layout for an operator's command, which must not claim an empty Redis. Throws `start.layout_mismatch` if there
 * is another layout.
 */
export async function checkLayout(partition: Partition): Promise<void> {
  const { redis, keys } = partition;
  const found = await redis.get(keys.layout).catch(unlessUnreadable);
  if (found !== null) requireOwn(found, claimOf(LAYOUT, isReplicated(redis), partition), drain);
}

const WEAKER =
  "a failover can lose what this process writes: other processes of this deployment have all replicas confirm their writes. To fix this, " +
  'set durability = "replicated" in postern.toml, as they do (docs/redis.md)';

/**
 * Handles an error on reading the layout. If the key holds no string, returns an empty text, which then counts as another
 * layout. Throws any other error.
 */
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
