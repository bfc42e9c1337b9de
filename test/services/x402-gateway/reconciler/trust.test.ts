import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { keys } from "../../../fixtures/redis.ts";
import {
  idIn,
  PRICE,
  requiredIn,
  type TestX402,
  type TestX402Options,
  useX402,
} from "../../../fixtures/x402.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";

const fixture = useX402();
/**
 * Options of a gateway that trusts its facilitator. Its time-out is far longer than a settlement takes on a busy machine. If a settlement
 * that moved the money had no answer, no later answer would say that it did.
 */
const trusting: Partial<TestX402Options> = {
  x402: { trust_facilitator: true, settle_timeout_secs: 5 },
  token: { rpc_url: undefined as never },
  early: true,
};

async function ready(options: Partial<TestX402Options> = {}) {
  const x402 = await fixture.gateway({ ...trusting, ...options });
  await eventually("its facilitator is known", () => {
    const { ready: isReady, checks } = x402.gateway.readiness();
    return isReady && (checks["facilitators"] as { ok: boolean }[]).every(({ ok }) => ok);
  });
  return x402;
}

/** Makes the stored authorization look as if it had ended a while ago. */
async function endAuthorization({ redis }: TestX402, id: string): Promise<void> {
  const terms = JSON.parse(String(await redis.hget(keys.payment(id), "terms")));
  const valid_before = String(Math.floor(Date.now() / 1000) - 100);
  await redis.hset(keys.payment(id), "terms", JSON.stringify({ ...terms, valid_before }));
}

test("a gateway that trusts its facilitator shows this in its readiness, and accepts payments without a chain", async () => {
  const x402 = await ready();
  expect(x402.gateway.readiness().checks["trust_facilitator"]).toBe(true);
  expect((await x402.post(await x402.pay({ payer: fixture.payer }))).status).toBe(202);
  expect(await fixture.charged()).toEqual([PRICE]);
});

test("a trusted facilitator's refusal to settle is a 402, and a repeat's answer is payment.void, because the end is on disk", async () => {
  const x402 = await ready();
  const headers = await x402.pay({ payer: fixture.payer });
  await fixture.devnet.control.fault({
    on: "settle",
    kind: "refuse",
    reason: "insufficient_funds",
    times: 1,
  });
  const answer = await x402.post(headers);
  expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.rejected"]);
  expect(requiredIn(answer).accepts).toHaveLength(1);
  const again = await x402.post(headers);
  expect([again.status, again.json()["code"]]).toEqual([402, "payment.void"]);
  expect(await fixture.asked()).toEqual({ verify: 1, settle: 1 });
});

const NO_REFUSALS = [
  "invalid_exact_evm_nonce_already_used",
  "invalid_transaction_state",
  "unexpected_settle_error",
  'invalid_exact_evm_transaction_failed: The contract function "settle" reverted.\n\nError: 0x756688fe',
];

test.each(sample(NO_REFUSALS))(
  "a trusted facilitator that answers %s has not refused: the money may have moved, and it is asked again",
  async (reason) => {
    const x402 = await ready();
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on: "settle", kind: "refuse", reason, times: 1 });
    const answer = await x402.post(headers);
    expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
    x402.skip(7000);
    await eventually("its job", async () => (await x402.post(headers)).status === 202);
  },
);

test("a trusted facilitator that does not answer a settle is asked again, and the payment is charged once", async () => {
  const x402 = await ready();
  const headers = await x402.pay({ payer: fixture.payer });
  await fixture.devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
  expect((await x402.post(headers)).status).toBe(503);
  x402.skip(7000);
  await eventually("its job", async () => (await x402.post(headers)).status === 202);
  expect(await fixture.charged()).toEqual([PRICE]);
});

test("a trusted facilitator's refusal ends no payment that another replica has sent to settle meanwhile", async () => {
  const x402 = await ready();
  const headers = await x402.pay({ payer: fixture.payer });
  const refusal = { kind: "refuse", reason: "insufficient_funds", replyDelayMs: 500, times: 1 } as const;
  await fixture.devnet.control.fault({ on: "settle", ...refusal });
  await x402.undisturbed(async () => {
    const answered = x402.post(headers);
    const id = await eventually(
      "it is claimed",
      async () => (await x402.redis.zrevrange(keys.payments, 0, 0))[0],
    );
    await x402.journal.markDispatching(id, 60_000);
    expect((await answered).json()["code"]).toBe("payment.outcome_unknown");
    expect((await x402.journal.find(id))?.state).toBe("SETTLING");
  });
  x402.skip(7000);
  await eventually("its job", async () => (await x402.post(headers)).status === 202);
  expect(await fixture.charged()).toEqual([PRICE]);
});

test("a payment whose outcome a trusted facilitator never reports goes to review, and is answered 503 until then", async () => {
  const x402 = await ready();
  const headers = await x402.pay({ payer: fixture.payer });
  await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
  const unknown = await x402.post(headers);
  expect(unknown.status).toBe(503);
  await endAuthorization(x402, idIn(unknown));
  const answer = await eventually("it is in review", async () => {
    x402.skip(60_000);
    const said = await x402.post(headers);
    expect([said.status, said.headers["payment-required"]]).toEqual([503, undefined]);
    return said.json()["code"] === "payment.in_review" ? said : undefined;
  });
  expect(answer.json()["status_url"]).toBeDefined();
  expect(x402.log.events.some(({ event }) => event === "payment.in_review")).toBe(true);
  expect(await x402.waiting()).toEqual([]);
});

onlyInLongRun(() => {
  test("a gateway whose clock is two hours ahead does not end an open payment of a trusted facilitator before its authorization has ended", async () => {
    const first = await ready();
    const headers = await first.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
    const id = idIn(await first.undisturbed(() => first.post(headers)));
    await fixture.stop(first);
    const ahead = await ready({ clock: () => Date.now() + 7_200_000 });
    await ahead.untilState(id, "QUEUED");
    expect(await fixture.charged()).toEqual([PRICE]);
  });
});
