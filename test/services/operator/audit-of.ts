import { keys, type TestRedis } from "../../fixtures/redis.ts";

/** Who did what, oldest first. */
export async function auditOf({ client }: TestRedis): Promise<Record<string, string>[]> {
  const entries = await client.xrange(keys.audit, "-", "+");
  return entries.map(([, flat]) =>
    Object.fromEntries(flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] ?? ""]] : []))),
  );
}
