import type { Redis } from "../../shared/redis/connect.ts";

/** Returns the values of these keys, of any type, in a form that can be compared. */
export async function contentsOf(client: Redis, keys: readonly string[]): Promise<Record<string, unknown>> {
  const read = keys.toSorted().map(async (key) => [key, await contentOf(client, key)] as const);
  return Object.fromEntries(await Promise.all(read));
}

async function contentOf(client: Redis, key: string): Promise<unknown> {
  switch (await client.type(key)) {
    case "hash": {
      const { opts, ...fields } = await client.hgetall(key);
      return { ...fields, opts: opts && JSON.parse(opts) };
    }
    case "list":
      return client.lrange(key, 0, -1);
    case "set":
      return (await client.smembers(key)).sort();
    case "zset":
      return client.zrange(key, "0", "-1", "WITHSCORES");
    case "stream":
      return (await client.xrange(key, "-", "+")).map(([, fields]) => fields);
    default:
      return client.get(key);
  }
}
