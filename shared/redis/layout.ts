import { createRequire } from "node:module";
import { z } from "zod";
import { AppError } from "../errors/app-error.ts";
import claimLayoutLua from "./claim-layout.lua";
import { defineScript } from "./define-script.ts";
import type { Partition } from "./partition.ts";
import { text } from "./reply.ts";

/** The version of the keys and of what is stored under them, as keys.ts lists them. A change that an older release cannot read is a new one. */
export const LAYOUT = 4;

/** Found by the package's own name, so from the sources and from dist/ alike. */
const { version } = createRequire(import.meta.url)("postern/package.json") as { version: string };

export const RELEASE = version;

/** What lies under the key of the layout: `release` wrote it. */
const Stored = z.object({ layout: z.int(), release: z.string() });

const OWN = JSON.stringify({ layout: LAYOUT, release: version } satisfies z.infer<typeof Stored>);

const CLAIM = defineScript({ source: claimLayoutLua, keys: "layout", args: "own", reply: text });

/**
 * For processes that write. What this returns writes the own layout where there is none, and throws `start.layout_mismatch`
 * if another is there. Both are one step, so of two releases that start on an empty Redis one is refused. Call it on each
 * connection before the first write, since Redis may have lost its data.
 */
export function createClaimLayout({ redis, keys }: Partition): () => Promise<void> {
  const claim = CLAIM.on(redis);
  return async () => requireOwn(await claim({ layout: keys.layout }, { own: OWN }).catch(unlessUnreadable));
}

/** For commands, which must not claim an empty Redis: throws `start.layout_mismatch` if another layout is there. */
export async function checkLayout({ redis, keys }: Partition): Promise<void> {
  requireOwn((await redis.get(keys.layout).catch(unlessUnreadable)) ?? OWN);
}

/** What is no string is another layout too. */
function unlessUnreadable(error: unknown): string {
  if (error instanceof Error && error.message.startsWith("WRONGTYPE")) return "";
  throw error;
}

function requireOwn(stored: string): void {
  const found = read(stored);
  if (found?.layout === LAYOUT) return;
  const [what, drain] =
    found === undefined
      ? ["a layout that cannot be read", "the release that wrote it"]
      : [`layout ${found.layout}, written by release ${found.release}`, `release ${found.release}`];
  throw new AppError("start.layout_mismatch", {
    reason:
      `Redis holds ${what}, and this release (${version}) has layout ${LAYOUT}. Drain it with ${drain}: stop its ` +
      "webhooks gateways, run its producers and `postern x402 --drain` until the log has `drain.done` and `postern status` " +
      "shows empty queues, and empty it then. Do not start this release on another Redis meanwhile if it sells jobs to the " +
      'same pay_to: a payment could be sold twice (docs/operations.md, "Another release")',
  });
}

function read(stored: string): z.infer<typeof Stored> | undefined {
  try {
    return Stored.parse(JSON.parse(stored));
  } catch {
    return undefined;
  }
}
