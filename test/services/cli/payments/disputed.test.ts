import { expect, test } from "vitest";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines } from "../../../fixtures/postern.ts";
import { keys } from "../../../fixtures/redis.ts";

const payments = usePayments();
const { run } = payments.postern;

test("postern status says how many payments are in review or disputed, for how long, and which command lists them", async () => {
  const { journal, redis } = payments.gateway;
  const lines = async () => (await run(["status"])).stdout.match(/^payments .*$/gm) ?? [];
  expect(await lines()).toEqual([]);
  await payments.claimForReview();
  const id = await payments.buy();
  await journal.markDisputed(id, "the chain says: expired");
  await redis.zadd(keys.paymentsDisputed, "XX", Date.now() - 7_260_000, id);
  expect(await lines()).toEqual([
    expect.stringMatching(
      /^payments in review: 1, the oldest for \S+.* \(postern payments list --state review\)$/,
    ),
    "payments disputed: 1, the oldest for 2h1m (postern payments list --disputed)",
  ]);
  const [json] = jsonLines(await run(["status", "-o", "json"]));
  expect(json?.["payments"]).toMatchObject({ review: { count: 1 }, disputed: { count: 1 } });
  await run(["payments", "resolve", id, "--acknowledged", "--reason", "seen"]);
  expect(await lines()).toHaveLength(1);
});
