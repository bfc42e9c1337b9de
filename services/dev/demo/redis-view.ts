import { createPaymentList } from "../../../shared/payments/list.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import type { Shutdown } from "../../../shared/platform/lifecycle/run-service.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { lastBeats } from "../../../shared/queue/heartbeat.ts";
import { openRegistry, sumOfDepths } from "../../../shared/queue/registry.ts";
import { connectForRequests } from "../../../shared/redis/connect.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { whenReady } from "../../../shared/redis/ready.ts";

export type RedisView = Awaited<ReturnType<typeof openRedisView>>;

const CONNECT_MS = 5000;

/** Connects to Redis, so that the demo can read the queue and the payments itself, without asking a running process. */
export async function openRedisView(url: string, shutdown: Shutdown) {
  const since = systemClock();
  const redis = connectForRequests({ url: new Secret(url) }, silentLogger);
  shutdown.defer("view of redis", () => redis.disconnect());
  await whenReady(redis, CONNECT_MS).catch((cause: unknown) => {
    throw new Error(`cannot connect to Redis at ${new URL(url).host}: ${messageOf(cause)}`, { cause });
  });
  const partition = partitionOf(redis);
  const registry = openRegistry(partition);
  const payments = createPaymentList(partition);
  return {
    /** Returns the number of unfinished calls (waiting, delayed or in flight) and of failed calls. */
    async calls() {
      const { waiting, delayed, held, active, failed } = sumOfDepths(await registry.depths());
      return { waiting: waiting + delayed + held + active, failed };
    },
    async producers() {
      return (await lastBeats(partition)).length;
    },
    /** Returns the payments that payment gateways have recorded as settled since this view was opened. */
    async settled() {
      const found: { id: string; units: bigint }[] = [];
      for await (const { id, terms, settlement } of payments.matching({ since }))
        if (settlement !== undefined) found.push({ id, units: BigInt(terms.amount) });
      return found;
    },
  };
}

/**
 * Throws if this Redis already has calls or producers of Postern. The demo must not use it, because the demo's producer
 * and runner would run calls that are not the demo's own.
 */
export async function requireUnused({ calls, producers }: RedisView): Promise<void> {
  const found = { ...(await calls()), producers: await producers() };
  if (Object.values(found).every((number) => number === 0)) return;
  const list = Object.entries(found).map(([what, number]) => `${what} ${number}`);
  throw new Error(
    `The Redis of REDIS_URL is in use (${list.join(", ")}), and the demo would run calls that are not its own. ` +
      "Unset REDIS_URL, so that the demo starts its own Redis, or set it to a Redis that Postern does not use.",
  );
}
