import type { Redis } from "../../shared/redis/connect.ts";
import type { Partitions } from "../../shared/redis/partition.ts";
import { partitionsOver } from "./partitions.ts";

/** Script with KEYS: due, payments; and ARGV: ms, prefix of the payments. */
const AGE = `
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZINCRBY', KEYS[1], -ARGV[1], id) end
for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  for _, field in ipairs({'claimed_at', 'dispatched_at'}) do
    if redis.call('HEXISTS', ARGV[2] .. id, field) == 1 then redis.call('HINCRBY', ARGV[2] .. id, field, -ARGV[1]) end
  end
end`;

/** Makes the payments in Redis older by `ms`, because Redis' own clock cannot be changed. */
export async function passTime(partitions: Partitions, ms: number): Promise<void> {
  for (const { redis, keys } of partitions.all)
    await redis.eval(AGE, 2, keys.paymentsDue, keys.payments, Math.round(ms), keys.payment(""));
}

/** Sets the time of a payment's claim (unix ms). */
export async function setClaimTime(redis: Redis, id: string, at: number): Promise<void> {
  const { keys } = partitionsOver(redis).of(id);
  await redis.hset(keys.payment(id), "claimed_at", at);
  for (const list of [keys.payments, keys.paymentsUnresolved]) await redis.zadd(list, "XX", at, id);
}
