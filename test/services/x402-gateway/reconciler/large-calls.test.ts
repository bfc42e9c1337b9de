import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useMadePayments } from "../../../fixtures/made-payments.ts";
import { keys } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import type { TestX402, TestX402Options } from "../../../fixtures/x402.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { claimPayment, queuePayment } from "../../../support/made-payment.ts";
import { partitionsOver } from "../../../support/partitions.ts";
import { passTime } from "../../../support/pass-time.ts";

/** The stored call has 400 KiB, which counts as large. */
const BODY = Buffer.alloc(300 * 1024, "x");
const MINUTE_MS = 60_000;

const payments = useMadePayments();
const { redis, devnet } = payments;
const proxy = useRedisProxy(redis);

/** Starts a gateway behind the proxy. */
const gateway = (options: Partial<TestX402Options> = {}): Promise<TestX402> =>
  payments.gateway({ redisUrl: proxy.url, directUrl: redis.url, ...options });

const made = () => ({
  ...{ network: devnet.network, asset: devnet.token, body: BODY },
  facilitator: devnet.facilitatorUrl,
});
const eventsOf = ({ log }: TestX402) => log.events.map(({ event }) => event);

test("the reconciler reads no body, not even of a large call that it adds again because its queue has lost it", async () => {
  const open = await claimPayment(payments.journal, made());
  await passTime(partitionsOver(redis.client), MINUTE_MS);
  const [waiting, ended, lost] = [
    await queuePayment(payments.journal, made()),
    await queuePayment(payments.journal, made()),
    await queuePayment(payments.journal, made()),
  ];
  await redis.client.hset(keys.record(ended), "st", "INJECTED");
  for (const id of [ended, lost]) await payments.queues.remove(id);
  let largest = 0;
  proxy.replyPauseMs = (bytes) => {
    largest = Math.max(largest, bytes);
    return 0;
  };
  const x402 = await gateway();
  const callsIn = (event: string) =>
    x402.log.events.flatMap((e) => (e.event === event ? [e.fields["callId"]] : []));
  await eventually("the open one is settled again", () => callsIn("payment.settled_again").includes(open));
  await eventually("the others are looked for on the chain", () =>
    [waiting, ended].every((id) => callsIn("payment.reorged").includes(id)),
  );
  await eventually("the lost one waits again", async () => (await payments.queues.find(lost)) !== undefined);
  expect(callsIn("payment.call_missing")).toEqual([lost]);
  expect(eventsOf(x402)).not.toContain("payment.reconcile_failed");
  expect(largest).toBeGreaterThan(0);
  expect(largest).toBeLessThan(BODY.length / 8);
});

onlyInLongRun(() => {
  test("a large call whose record cannot be read is left to an operator, and delays no other payment", async () => {
    const [broken, other] = [
      await queuePayment(payments.journal, made()),
      await queuePayment(payments.journal, made()),
    ];
    await redis.client.hset(keys.payment(broken), "call", `?${"x".repeat(BODY.length)}`);
    for (const id of [broken, other]) await payments.queues.remove(id);
    const x402 = await gateway();
    await eventually("the other waits again", async () => (await payments.queues.find(other)) !== undefined);
    const isBroken = (event: string) =>
      x402.log.events.filter((e) => e.event === event && e.fields["callId"] === broken).length;
    await eventually("the broken one is left to an operator", () => isBroken("payment.unreadable") > 0);
    expect([isBroken("payment.call_missing"), isBroken("payment.unreadable")]).toEqual([1, 1]);
    expect(await payments.journal.findWithoutCall(broken)).toMatchObject({
      state: "QUEUED",
      reason: expect.any(String),
    });
  });
});
