import type { Redis } from "../../shared/redis/connect.ts";

/** Number and size of the keys of one kind, over all calls and queues. */
export type Kind = { name: string; keys: number; bytes: number };

const PAGE = 1000;

/**
 * Counts and measures the keys of a Redis by kind. A kind is a key's name with placeholders for the call and the queue. Redis
 * deletes an expired key when this function reads it.
 */
export async function kindsIn(redis: Redis): Promise<Kind[]> {
  const kinds = new Map<string, Kind>();
  let cursor = "0";
  do {
    const [next, keys] = await redis.scan(cursor, "COUNT", PAGE);
    cursor = next;
    const bytes = await Promise.all(keys.map((key) => redis.memory("USAGE", key)));
    for (const [i, key] of keys.entries()) {
      const size = bytes[i];
      if (size === null || size === undefined) continue; // the key has expired
      const name = kindOf(key);
      const kind = kinds.get(name) ?? { name, keys: 0, bytes: 0 };
      kinds.set(name, kind);
      kind.keys += 1;
      kind.bytes += size;
    }
  } while (cursor !== "0");
  return [...kinds.values()].sort((a, b) => a.name.localeCompare(b.name));
}

const CALL = "<call>";

function kindOf(key: string): string {
  return key.replace(/:c_[^:]+/, `:${CALL}`).replace(/:[a-z0-9]+\/\d+\/\d+/, ":<queue>");
}

/** Returns whether keys of this kind belong to a single call. */
export function isOfCalls({ name }: Kind): boolean {
  return name.includes(CALL);
}
