import type { Redis } from "../../shared/redis/connect.ts";
import { partitionsOver } from "./partitions.ts";

/** KEYS due, payments. ARGV ms, prefix of the payments. */
const AGE = `
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZINCRBY', KEYS[1], -ARGV[1], id) end
for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  for _, field in ipairs({'claimed_at', 'dispatched_at'}) do
    if redis.call('HEXISTS', ARGV[2] .. id, field) == 1 then redis.call('HINCRBY', ARGV[2] .. id, field, -ARGV[1]) end
  end
end`;

/** Makes the payments in Redis older, as if so many ms had passed: nobody can put Redis' own clock ahead. */
export async function passTime(redis: Redis, ms: number): Promise<void> {
  for (const { keys } of partitionsOver(redis).all)
    await redis.eval(AGE, 2, keys.paymentsDue, keys.payments, Math.round(ms), keys.payment(""));
}

/** Makes one payment as old as if it had been claimed then (unix ms). */
export async function claimedSince(redis: Redis, id: string, at: number): Promise<void> {
  const { keys } = partitionsOver(redis).of(id);
  await redis.hset(keys.payment(id), "claimed_at", at);
  for (const list of [keys.payments, keys.paymentsUnresolved]) await redis.zadd(list, "XX", at, id);
}
