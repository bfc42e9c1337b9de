import { expect, test } from "vitest";
import type { FaultOrder } from "../../../../services/dev/chain/faults.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import { keys } from "../../../fixtures/redis.ts";
import { idIn, PRICE, type TestX402, useX402, withoutPayerFields } from "../../../fixtures/x402.ts";
import { codeOf } from "../../../support/books.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";

const fixture = useX402({ devnet: useDevnet({ fresh: "test" }) });

const SETTLE_SECS = { settle_timeout_secs: 60 };
/** The facilitator does not settle, and answers only once the test releases it. */
const silent = { on: "settle", times: 1, replyDelayMs: 600_000 } as const;
/** The facilitator settles at once, and its answer is late. */
const late = { ...silent, acts: true } as const;
const letAnswer = () => fixture.devnet.control.clearFaults();

const saidOf = ({ log }: TestX402, event: string) => log.events.filter((each) => each.event === event);

/** After a check, the next one is due sooner than this. During a check, the lease ends later than this. */
const NEXT_CHECK_MS_MAX = 35_000;
/** Minimum delay until a proven payment is checked again. */
const SELDOM_MS_MIN = 300_000;

/** Moves the clock to the time at which the payment is due. Resolves once a reconciler has checked it. */
async function waitForCheck(x402: TestX402, id: string): Promise<void> {
  const dueInMs = async () => Number(await x402.redis.zscore(keys.paymentsDue, id)) - Date.now();
  x402.skip(Math.max(0, await dueInMs()));
  await eventually("it was looked at", async () => {
    const ms = await dueInMs();
    return (ms > 0 && ms < NEXT_CHECK_MS_MAX) || ms > SELDOM_MS_MIN;
  });
}

const LATE_ANSWERS: readonly [string, FaultOrder][] = [
  ["hangs up", { ...late, kind: "drop" }],
  ["says the same", { ...late, kind: "slow" }],
  ["says that it did not settle", { ...late, kind: "refuse" }],
  ["names another transaction", { ...late, kind: "accept", transaction: `0x${"ab".repeat(32)}` }],
];

test.each(sample(LATE_ANSWERS))(
  "the chain's proof answers the payer while the facilitator is silent, and nothing changes if the facilitator later %s",
  async (_what, fault) => {
    const x402 = await fixture.gateway({ x402: SETTLE_SECS });
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault(fault);
    const answered = x402.post({ ...headers, Prefer: "wait=1" });
    await eventually("it lands", async () => (await fixture.charged()).length === 1);
    x402.skip(3000);
    const answer = await answered;
    expect(saidOf(x402, "payment.settle_answered")).toEqual([]);
    expect([answer.status, answer.headers["idempotent-replayed"]]).toEqual([202, undefined]);
    expect(answer.json()).toHaveProperty("result_token");

    await letAnswer();
    await eventually("the facilitator answers", () => saidOf(x402, "payment.settle_answered").length === 1);
    await waitForCheck(x402, idIn(answer));
    const again = await x402.post(headers);
    expect([again.status, withoutPayerFields(again)]).toEqual([202, withoutPayerFields(answer)]);
    const transfers = await fixture.devnet.chain.transfers(fixture.devnet.seller);
    expect(transfers).toMatchObject([{ value: PRICE, transaction: answer.json()["transaction"] }]);
    expect(await x402.waiting()).toHaveLength(1);
    expect(saidOf(x402, "payment.settled")).toHaveLength(1);
  },
);

onlyInLongRun(() => {
  test("the chain's proof that a payment can no longer be made answers its payer while the facilitator is silent", async () => {
    const x402 = await fixture.gateway({ x402: SETTLE_SECS });
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ ...silent, kind: "drop" });
    const answered = x402.post(headers);
    await eventually("it is being settled", async () => (await fixture.asked()).settle === 1);
    const { payload } = JSON.parse(Buffer.from(headers["PAYMENT-SIGNATURE"] ?? "", "base64").toString());
    await fixture.devnet.chain.cancelAuthorization(fixture.payer, payload.authorization.nonce);
    await fixture.devnet.chain.finalize();
    x402.skip(3000);
    const answer = await answered;
    expect([answer.status, codeOf(answer)]).toEqual([402, "payment.void"]);
    expect(saidOf(x402, "payment.settle_answered")).toEqual([]);
  });

  test("a transfer that is not deep enough yet answers no request, and if a reorganisation removes it, the payer gets the job once it is paid again", async () => {
    const x402 = await fixture.gateway({ x402: SETTLE_SECS, token: { confirmations: 3 } });
    const headers = await x402.pay({ payer: fixture.payer });
    const before = await fixture.devnet.chain.snapshot();
    await fixture.devnet.control.fault({ ...late, kind: "slow" });
    let isAnswered = false;
    const answered = x402.post(headers).finally(() => {
      isAnswered = true;
    });
    await eventually("it lands", async () => (await fixture.charged()).length === 1);
    const [id = ""] = await x402.redis.zrevrange(keys.payments, 0, 0);
    for (let looks = 0; looks < 3; looks++) await waitForCheck(x402, id);
    expect([isAnswered, (await x402.journal.find(id))?.state]).toEqual([false, "SETTLING"]);

    await fixture.devnet.chain.revert(before);
    await letAnswer();
    await eventually("the facilitator answers", () => saidOf(x402, "payment.settle_answered").length === 1);
    await fixture.devnet.chain.mine();
    // From now on the reconciler may send another settle request. It may not once a minute has passed, because the payer may have paid
    // again.
    x402.skip(SETTLE_SECS.settle_timeout_secs * 1000);
    await eventually("it is paid again", async () => (await fixture.charged()).length === 1);
    const answer = await answered;
    expect([202, 503]).toContain(answer.status);
    await fixture.devnet.chain.mine(4);
    await x402.untilState(id, "QUEUED");
    expect(await x402.waiting()).toMatchObject([{ id }]);
  });
});
