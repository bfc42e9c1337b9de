import { expect, test } from "vitest";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import { createPaymentList } from "../../../shared/payments/list.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { claimPayment } from "../../support/made-payment.ts";

const redis = useRedis();

test("pruning skips a page of old payments that still exist, and forgets those that have expired", async () => {
  const journal = new PaymentJournal(redis.partition);
  const token = { network: "eip155:8453", asset: `0x${"5".repeat(40)}` };
  const old = await Promise.all(Array.from({ length: 500 }, () => claimPayment(journal, token)));
  const gone = Array.from({ length: 700 }, (_, i) => [i, `c_gone${i}`]).flat();
  await redis.client.zadd(keys.payments, ...old.flatMap((id) => [-1, id]), ...gone);
  const list = createPaymentList(redis.partition);
  const rank = await list.prune(0);
  expect([rank, await redis.client.zcard(keys.payments)]).toEqual([500, 1200]);
  expect([await list.prune(rank), await redis.client.zcard(keys.payments)]).toEqual([0, 500]);
});
