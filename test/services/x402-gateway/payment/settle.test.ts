import { expect, test } from "vitest";
import type { FaultOrder } from "../../../../services/dev/chain/faults.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { keys } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import type { TestX402 } from "../../../fixtures/x402.ts";
import { idIn, PRICE, useX402, withoutPayerFields } from "../../../fixtures/x402.ts";
import type { Answer } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { authorizationIn } from "../../../support/sign-payment.ts";
import { STEPS } from "../redis-steps.ts";

const fixture = useX402();
const proxy = useRedisProxy(fixture.redis);

/**
 * Expects an unknown outcome, which neither confirms nor refuses the payment. The answer asks to send the same payment again and says where
 * to follow it.
 */
function expectUnknown(answer: Answer): void {
  expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  expect(answer.headers["payment-required"]).toBeUndefined();
  expect(answer.json()["accepts"]).toBeUndefined();
  expect(answer.json()["status_url"]).toMatch(/^http:\/\/pay\.test\/x402\/calls\/c_[0-9a-f]{32}$/);
  expect(answer.headers.location).toBe(answer.json()["status_url"]);
}

function paid(x402: TestX402, headers: Record<string, string>): Promise<Answer> {
  return eventually("the same payment is answered with its job", async () => {
    const answer = await x402.post(headers);
    expect([202, 503]).toContain(answer.status);
    return answer.status === 202 ? answer : undefined;
  });
}

const settle = { on: "settle", times: 1 } as const;
/** Minimum delay until the reconciler checks a payment again. */
const LOOK_MS = 2000;

/** Time limit of a settle request in seconds, by fault. The default is three seconds. */
const SETTLE_SECS: Partial<Record<FaultOrder["kind"], number>> = { slow: 1 };

/** Answers of a facilitator that settles the payment. Each run tries the first five. */
const landed: Record<string, FaultOrder> = {
  "not at all": { ...settle, kind: "drop", acts: true },
  "with 500": { ...settle, kind: "status", status: 500, acts: true },
  "with 502 and a page": { ...settle, kind: "status", status: 502, body: "<html>", acts: true },
  "with 429": { ...settle, kind: "status", status: 429, retryAfterSecs: 1, acts: true },
  "with success: false": { ...settle, kind: "refuse", acts: true },
  "too late": { ...settle, kind: "slow", replyDelayMs: 1500 },
  "with 400": { ...settle, kind: "status", status: 400, acts: true },
  "with 402": { ...settle, kind: "status", status: 402, body: '{"success":false}', acts: true },
  "with something that is not JSON": { ...settle, kind: "not_json", acts: true },
  "with a redirect": { ...settle, kind: "redirect", acts: true },
  "with an answer above the size limit": { ...settle, kind: "huge", acts: true },
  "with settlement_pending": { ...settle, kind: "pending", landsAfterMs: 900 },
  "with insufficient_funds": { ...settle, kind: "refuse", reason: "insufficient_funds", acts: true },
};

/** Expects that the payment's transaction has the only transfer. */
async function expectPaidOnce(answer: Answer): Promise<void> {
  expect(await fixture.charged()).toEqual([PRICE]);
  const [transfer] = (await fixture.devnet.chain.transfers(fixture.devnet.seller)).slice(-1);
  expect(answer.json()["transaction"]).toBe(transfer?.transaction);
}

/** Expects the log event from which earnings are counted exactly once. */
function expectToldOnce({ log }: TestX402, answer: Answer): void {
  const settledEvents = log.events
    .filter(({ event }) => event === "payment.settled")
    .map(({ fields }) => fields);
  const { call_id: callId, transaction } = answer.json();
  const { network, token } = fixture.devnet;
  expect(settledEvents).toEqual([
    {
      ...{ callId, transaction, network, asset: token, serviceId: 1, jobIndex: 7 },
      ...{
        amount: String(PRICE),
        symbol: expect.any(String),
        by: expect.stringMatching(/^(facilitator|chain)$/),
      },
    },
  ]);
}

test.each(sample(Object.entries(landed)))(
  "a settlement that is answered %s is found on the chain while the first request waits, which gets its 202 and is charged once",
  async (_how, fault) => {
    const x402 = await fixture.gateway({ x402: { settle_timeout_secs: SETTLE_SECS[fault.kind] ?? 3 } });
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault(fault);
    const first = await x402.post(headers);
    expect([first.status, first.headers["idempotent-replayed"]]).toEqual([202, undefined]);
    expect(first.headers.location).toBe(first.json()["status_url"]);
    const again = await x402.post(headers);
    expect([again.status, withoutPayerFields(again), again.headers["idempotent-replayed"]]).toEqual([
      202,
      withoutPayerFields(first),
      "true",
    ]);
    expect((await fixture.asked()).settle).toBe(1);
    await expectPaidOnce(first);
    expectToldOnce(x402, first);
  },
);

onlyInLongRun(() => {
  test.each(Object.entries(landed))(
    "a settlement that is answered %s is unknown if no process looks at the chain, then found there, and charged once",
    async (_how, fault) => {
      const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
      const headers = await x402.pay({ payer: fixture.payer });
      await fixture.devnet.control.fault(fault);
      expectUnknown(await x402.undisturbed(() => x402.post(headers)));
      await eventually("it lands", async () => (await fixture.charged()).length === 1);
      x402.skip(LOOK_MS);
      const answer = await paid(x402, headers);
      expect(answer.headers["idempotent-replayed"]).toBe("true");
      await expectPaidOnce(answer);
      expectToldOnce(x402, answer);
    },
  );
});

test("a payment whose settlement did not reach the chain is settled again by the gateway without a request, and charged once", async () => {
  const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
  const headers = await x402.payV1({ payer: fixture.payer });
  await fixture.devnet.control.fault({ ...settle, kind: "drop" });
  expectUnknown(await x402.post(headers));
  x402.skip(3000);
  await eventually("the job is queued", async () => (await x402.waiting()).length === 1);
  expect((await fixture.asked()).settle).toBe(2);
  const answer = await paid(x402, headers);
  expect(answer.headers["x-payment-response"]).toBeDefined();
  expect(await fixture.charged()).toEqual([PRICE]);
});

onlyInLongRun(() => {
  test("a repeat with another body is 409 while the payment's outcome is unknown", async () => {
    const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ ...settle, kind: "refuse" });
    expectUnknown(await x402.post(headers));
    expect((await x402.post(headers, { body: "other" })).status).toBe(409);
    x402.skip(3000);
    await paid(x402, headers);
  });
});

test("a payment that settles while Redis is full is queued, because the claim reserved the memory", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  await fixture.devnet.control.fault({ ...settle, kind: "slow", replyDelayMs: 500 });
  const answered = x402.post(headers);
  const id = await eventually(
    "it is claimed",
    async () => (await x402.redis.zrevrange(keys.payments, 0, 0))[0],
  );
  await x402.redis.config("SET", "maxmemory", 1);
  expect((await answered).status).toBe(202);
  await x402.redis.config("SET", "maxmemory", 0);
  expect(await x402.waiting()).toMatchObject([{ id }]);
  expect(await fixture.charged()).toEqual([PRICE]);
});

onlyInLongRun(() => {
  test("the first settle request is also sent no later than max_timeout_secs after the claim, and the payment is one job if another party sends it then", async () => {
    const x402 = await fixture.gateway({
      ...{ redisUrl: proxy.url, directUrl: fixture.redis.url },
      x402: { max_timeout_secs: 14, settle_timeout_secs: 1 },
    });
    const headers = await x402.pay({
      payer: fixture.payer,
      validBefore: BigInt(Math.floor(Date.now() / 1000) + 3600),
    });
    proxy.onCommand = (words) => {
      if (STEPS.claim(words)) x402.skip(14_000);
      return undefined;
    };
    const answer = await x402.post(headers);
    expectUnknown(answer);
    proxy.onCommand = () => undefined;
    for (let looks = 0; looks < 3; looks++) {
      x402.skip(30_000);
      const due = await x402.redis.zscore(keys.paymentsDue, idIn(answer));
      await eventually("it was looked at", async () => {
        x402.skip(1000);
        return (await x402.redis.zscore(keys.paymentsDue, idIn(answer))) !== due;
      });
    }
    expect((await fixture.asked()).settle).toBe(0);
    await fixture.devnet.chain.frontRun(authorizationIn(headers));
    await x402.untilState(idIn(answer), "QUEUED");
    expect(await fixture.charged()).toEqual([PRICE]);
  });
});
