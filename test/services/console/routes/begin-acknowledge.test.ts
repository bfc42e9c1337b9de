import { describe, expect, test } from "vitest";
import type { AcknowledgeView } from "../../../../shared/console/acknowledge-bulk.ts";
import { toSettlement } from "../../../../shared/payments/payment.ts";
import { refusalOf, type TestOperator, useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { keys } from "../../../fixtures/redis.ts";
import { audited } from "../../../support/audited.ts";
import { runIn } from "../run-of.ts";

const PATH = "/api/v1/payments/acknowledgements";
const REASON = "the facilitator lied";
const UNKNOWN = `c_${"0".repeat(32)}`;

describe("202", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });
  const find = (id: string) => payments.gateway.journal.find(id);

  async function disputed(): Promise<string> {
    const id = await payments.buy();
    await payments.gateway.journal.markDisputed(id, "the chain says: expired");
    return id;
  }

  async function acknowledge(service: TestOperator, order: object): Promise<AcknowledgeView> {
    const begun = await service.post(PATH, { ...order, reason: REASON });
    expect(begun.status).toBe(202);
    const run: unknown = await runIn(service, String(begun.headers["location"]), "done");
    return run as AcknowledgeView;
  }

  test("one bulk operation acknowledges the named disputed payments with one reason, and counts other named payments without changing them", async () => {
    const service = await fixture.start();
    const [one, shown, before] = [await disputed(), await disputed(), await disputed()];
    await acknowledge(service, { call_ids: [before] });
    const inReview = await payments.claimForReview();
    const undisputed = await payments.buy();
    // The chain contradicts this payment after the operator has read the list.
    const found = await find(shown);
    if (found === undefined) throw new Error("the payment is gone");
    const transaction = `0x${"7".repeat(64)}`;
    await payments.gateway.journal.markProven(
      found,
      toSettlement(found, { transaction, by: "chain", position: 1 }),
    );
    const others = [before, inReview, undisputed];
    const stored = () =>
      Promise.all([one, shown, ...others].map(async (id) => ({ ...(await find(id)), readAt: undefined })));
    const asBefore = await stored();

    const run = await acknowledge(service, { call_ids: [one, shown, ...others, UNKNOWN] });
    expect(run).toMatchObject({
      ...{ kind: "acknowledge", by: "otto", selection: "by id", reason: REASON, done: 2, unchanged: 3 },
      missing: [{ code: "payment.unknown", detail: expect.stringContaining(UNKNOWN) }],
    });
    const acknowledged = { by: "otto", reason: REASON };
    const expected = asBefore.map((each, i) => (i < 2 ? { ...each, acknowledged } : each));
    expect(await stored()).toEqual(expected);
    expect(await payments.redis.client.zcard(keys.paymentsDisputed)).toBe(0);
    expect((await audited(payments.redis.client)).slice(-3)).toMatchObject(
      [undefined, one, shown].map((call_id) => ({
        ...{ action: call_id === undefined ? "begin_acknowledge" : "acknowledge", ...acknowledged },
        ...{ selection: "by id", run: run.id, ...(call_id && { call_id }) },
      })),
    );
    const { entries } = (await service.get(`/api/v1/audit?grouped=true&run=${run.id}`)).json<{
      entries: [];
    }>();
    expect(entries).toMatchObject([{ action: "acknowledge", calls: 2 }, { action: "begin_acknowledge" }]);
  });

  test("a filter acknowledges the matching disputed payments, except those that were disputed after the start", async () => {
    const [one, two, late] = [await disputed(), await disputed(), await disputed()];
    await payments.redis.client.zadd(keys.paymentsDisputed, "XX", Date.now() + 3_600_000, late);
    const service = await fixture.start();
    const stranger = await acknowledge(service, { filter: { payer: `0x${"1".repeat(40)}` } });
    expect(stranger).toMatchObject({ done: 0, unchanged: 0, selection: `--payer 0x${"1".repeat(40)}` });
    const since = new Date((await find(two))?.claimedAt ?? 0).toISOString();
    const lately = await acknowledge(service, { filter: { since } });
    expect(lately).toMatchObject({ done: 1, unchanged: 0, selection: `--since ${since}` });
    expect(await acknowledge(service, { all: true })).toMatchObject({ done: 1, selection: "--all" });
    const seen = await Promise.all(
      [one, two, late].map(async (id) => (await find(id))?.acknowledged?.reason),
    );
    expect(seen).toEqual([REASON, REASON, undefined]);
    const { runs } = (await service.get("/api/v1/bulk?kind=acknowledge")).json<{ runs: [] }>();
    expect(runs).toMatchObject([{ done: 1 }, { done: 1 }, { done: 0 }]);
  });
});

describe("400", () => {
  const fixture = useOperator();

  test.each([
    [{ reason: "x" }],
    [{ all: true }],
    [{ all: true, call_ids: [UNKNOWN], reason: "x" }],
    [{ filter: { disputed: true }, reason: "x" }],
  ])("an order of %j is refused with 400", async (order) => {
    const { post } = await fixture.start();
    expect(refusalOf(await post(PATH, order))).toEqual([400, "request.malformed"]);
  });
});
