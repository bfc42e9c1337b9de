import { describe, expect, test } from "vitest";
import type { FailedBulkView } from "../../../../../shared/console/failed-bulk.ts";
import { PaymentJournal } from "../../../../../shared/payments/journal.ts";
import { useOperator } from "../../../../fixtures/console.ts";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { keys, useRedis } from "../../../../fixtures/redis.ts";
import { failPaid, OTHER_USDC, USDC, WIDE } from "../../paid-failures.ts";
import { runIn } from "../../run-of.ts";

describe("a discard of paid calls", () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const fixture = useOperator({ redis });

  async function discard(order: object): Promise<FailedBulkView> {
    const service = await fixture.start();
    const begun = await service.post("/api/v1/failed/discards", { reason: "sent twice", ...order });
    return runIn(service, String(begun.headers["location"]), "done");
  }

  const NOTHING = { calls: 0, amounts: [] };

  test("counts the exact sum for each token, and afterwards says which refunds are due", async () => {
    await calls.fail([{}, {}]);
    const huge = String(10n ** 30n + 1n);
    await failPaid(calls, [
      { ...USDC, amount: "3200000" },
      { ...OTHER_USDC, amount: "7" },
      { ...USDC, asset: USDC.asset.toUpperCase().replace("0X", "0x"), amount: "1" },
      { ...WIDE, amount: huge },
      { ...WIDE, amount: huge },
    ]);
    const paid = {
      confirmed: {
        calls: 5,
        amounts: expect.arrayContaining([
          { ...USDC, decimals: null, amount: "3200001" },
          { ...OTHER_USDC, decimals: null, amount: "7" },
          { ...WIDE, decimals: null, amount: "2000000000000000000000000000002" },
        ]),
      },
      unconfirmed: NOTHING,
      unreadable: 0,
    };
    const counted = await discard({ all: true, dry_run: true });
    expect(counted).toMatchObject({ matched: 7, remaining: 7, paid, refunds_due: null });
    expect(counted.paid?.confirmed.amounts).toHaveLength(3);
    const done = await discard({ all: true });
    expect(done).toMatchObject({ done: 7, paid, refunds_due: paid });
  });

  test("counts unconfirmed and unreadable payments separately, and leaves out payments of 0 and calls that were done", async () => {
    const journal = new PaymentJournal(redis.partition);
    const seenBy = (callId: string) =>
      ({ at: 1, action: "acknowledge", callId, by: "otto", selection: "by id" }) as const;
    const token = { ...USDC, amount: "100" };
    const [, seen = "", broken = "", later = "", taken = "", gone = ""] = await failPaid(calls, [
      { ...token, isProven: false },
      ...[token, token, token, token, token],
      { ...USDC, amount: "0" },
    ]);
    await journal.markDisputed(seen, "the chain shows no transfer any more");
    await journal.acknowledge(seen, { by: "otto", reason: "a reorganisation" }, seenBy(seen));
    await redis.client.hset(keys.payment(broken), "terms", "{");
    const terms = String(await redis.client.hget(keys.payment(later), "terms"));
    await redis.client.hset(keys.payment(later), "terms", "[]");
    await redis.client.hset(keys.record(taken), "st", "INJECTED"); // as if a 2xx had come late
    await redis.client.del(keys.payment(gone));
    const paid = {
      confirmed: NOTHING,
      unconfirmed: { calls: 2, amounts: [{ ...USDC, decimals: null, amount: "200" }] },
      unreadable: 3,
    };
    expect(await discard({ all: true, dry_run: true })).toMatchObject({ matched: 7, paid });
    await redis.client.hset(keys.payment(later), "terms", terms);
    expect(await discard({ all: true })).toMatchObject({
      ...{ done: 7, refunds_due: { confirmed: { calls: 1 }, unconfirmed: { calls: 2 }, unreadable: 2 } },
    });
  });

  test("counts only the selected calls, and a replay counts no money", async () => {
    await calls.fail([{}]);
    const token = { ...USDC, amount: "100" };
    const [first = "", second = ""] = await failPaid(calls, [token, token, token]);
    const two = await discard({ call_ids: [first, second], dry_run: true });
    expect(two.paid?.confirmed).toEqual({ calls: 2, amounts: [{ ...USDC, decimals: null, amount: "200" }] });
    const one = await discard({ filter: { origin: "x402" }, limit: 1, dry_run: true });
    expect(one.paid?.confirmed.calls).toBe(1);
    const none = await discard({ filter: { origin: "webhook" }, dry_run: true });
    expect(none.paid?.confirmed).toEqual(NOTHING);
    const service = await fixture.start();
    const begun = await service.post("/api/v1/failed/replays", { all: true, reason: "x", dry_run: true });
    const replay = await runIn(service, String(begun.headers["location"]), "done");
    expect(replay).toMatchObject({ matched: 4, paid: null, refunds_due: null });
  });

  test("leaves out a call whose refund is exported, and reports it", async () => {
    const [id = ""] = await failPaid(calls, [{ ...USDC, amount: "100" }]);
    // An export writes this state.
    await redis.client.hset(keys.record(id), "st", "REFUND_PENDING");
    await redis.client.zrem(keys.inQueue("x402/1/7", "failed"), id);
    await redis.client.del(keys.inQueue("x402/1/7", id));
    const run = await discard({ call_ids: [id], dry_run: true });
    expect(run).toMatchObject({ matched: 0, paid: { confirmed: NOTHING } });
    expect(run.missing[0]?.detail).toContain("the refund of its payment is exported");
  });
});
