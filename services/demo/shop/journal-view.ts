import { Secret } from "../../../shared/crypto/secret.ts";
import { silentLogger } from "../../../shared/log/logger.ts";
import { createPaymentList } from "../../../shared/payments/list.ts";
import { connectForRequests, whenReady } from "../../../shared/redis/connect.ts";
import { systemClock } from "../../../shared/time/clock.ts";

export type SettledPayment = { id: string; payer: string; units: bigint };

export type JournalView = {
  /** What x402 gateways have written down as settled since this view was opened. */
  settled(): Promise<SettledPayment[]>;
  close(): void;
};

const REDIS_DEADLINE_MS = 5000;

/** Looks into the gateways' payment journal from outside. */
export async function openJournalView(redisUrl: string): Promise<JournalView> {
  const since = systemClock();
  const redis = connectForRequests(new Secret(redisUrl), silentLogger);
  await whenReady(redis, REDIS_DEADLINE_MS);
  const list = createPaymentList(redis);
  return {
    async settled() {
      const found: SettledPayment[] = [];
      for await (const { id, terms, settlement } of list.matching({ since })) {
        if (settlement !== undefined) found.push({ id, payer: terms.payer, units: BigInt(terms.amount) });
      }
      return found;
    },
    close: () => redis.disconnect(),
  };
}
