import type { Redis } from "ioredis";
import { defineScript } from "./define-script.ts";
import lastSeenLua from "./last-seen.lua";
import noteSeenLua from "./note-seen.lua";
import { toScored } from "./pages.ts";
import { integer, list, nothing, text, tuple } from "./reply.ts";

/*
 * Functions for a sorted set whose members report periodically that they are alive. The score is the time of a member's last
 * report, by Redis' clock.
 */

const NOTE = defineScript({
  source: noteSeenLua,
  keys: "seen",
  args: "keptMs, ...members",
  proof: "expendable",
  reply: nothing,
});

const READ = defineScript({
  source: lastSeenLua,
  keys: "seen",
  args: "freshMs",
  proof: "reads",
  reply: tuple(integer, list(text)),
});

/** Notes that the members are alive now, even in a full Redis. Removes members that were silent for `keptMs`. */
export function noteSeen(
  redis: Redis,
  key: string,
  given: { keptMs: number; members: readonly string[] },
): Promise<void> {
  return NOTE.on(redis)({ seen: key }, given);
}

/** Returns the members that were seen in the last `freshMs`, longest silent first, and the time since each was seen. */
export async function lastSeen(
  redis: Redis,
  key: string,
  freshMs: number,
): Promise<{ member: string; ageMs: number }[]> {
  const [now, seen] = await READ.on(redis)({ seen: key }, { freshMs });
  return toScored(seen).map(({ member, score }) => ({ member, ageMs: Math.max(0, now - score) }));
}
