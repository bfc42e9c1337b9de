import type { PaymentPayload } from "@x402/core/types";
import { appendPaymentIdentifierToExtensions } from "@x402/extensions/payment-identifier";
import { expect, test } from "vitest";
import type { TestX402, TestX402Options } from "../../../../fixtures/x402.ts";
import { PRICE, useX402, waitingSeen, withoutPayerFields } from "../../../../fixtures/x402.ts";
import { newPayer } from "../../../../support/devnet.ts";
import { onlyInLongRun, sample } from "../../../../support/long-run.ts";

const fixture = useX402();
const ORDER_ID = "order_0123456789abcdef";

/** Signs a new payment under the client's payment identifier. */
async function payFor(x402: TestX402, id: string, payer = fixture.payer): Promise<Record<string, string>> {
  const extensions = structuredClone((await x402.ask()).v2.extensions ?? {});
  appendPaymentIdentifierToExtensions(extensions, id);
  return x402.pay({ payer }, { extensions } as Partial<PaymentPayload>);
}

test("a new payment under a used identifier, for the same request, gets the stored answer and nothing is charged", async () => {
  const replicas = [await fixture.gateway(), await fixture.gateway()] as [TestX402, TestX402];
  const first = await replicas[0].post(await payFor(replicas[0], ORDER_ID));
  expect(first.status).toBe(202);
  const again = await replicas[1].post(await payFor(replicas[1], ORDER_ID));
  expect([again.status, withoutPayerFields(again)]).toEqual([202, withoutPayerFields(first)]);
  expect(again.headers["idempotent-replayed"]).toBe("true");
  expect((await fixture.asked()).settle).toBe(1);
  expect(await fixture.charged()).toEqual([PRICE]);
  expect(await replicas[0].waiting()).toHaveLength(1);
});

onlyInLongRun(() => {
  test("five payments at once with one identifier are charged once", async () => {
    const x402 = await fixture.gateway();
    const payments = await Promise.all(Array.from({ length: 5 }, () => payFor(x402, ORDER_ID)));
    const answers = await Promise.all(payments.map((headers) => x402.post(headers)));
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 202, 202, 202]);
    expect(new Set(answers.map(withoutPayerFields)).size).toBe(1);
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  test("a new payment under the identifier of a payment with an unknown outcome gets the status URL of that payment", async () => {
    const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
    await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
    const first = await x402.post(await payFor(x402, ORDER_ID));
    const again = await x402.post(await payFor(x402, ORDER_ID));
    expect([first.status, again.status]).toEqual([503, 503]);
    expect(again.json()["status_url"]).toBe(first.json()["status_url"]);
  });
});

test("the same identifier from another payer is a separate identifier", async () => {
  const x402 = await fixture.gateway();
  const other = await newPayer(fixture.devnet);
  const mine = await x402.post(await payFor(x402, ORDER_ID));
  const theirs = await x402.post(await payFor(x402, ORDER_ID, other));
  expect([mine.status, theirs.status]).toEqual([202, 202]);
  expect(theirs.json()["call_id"]).not.toBe(mine.json()["call_id"]);
  expect(await fixture.charged(other)).toEqual([PRICE]);
});

onlyInLongRun(() => {
  test("two payments under two identifiers are two jobs", async () => {
    const x402 = await fixture.gateway();
    for (const id of [ORDER_ID, `${ORDER_ID}2`]) await x402.post(await payFor(x402, id));
    expect(await x402.waiting()).toHaveLength(2);
    expect(await fixture.charged()).toEqual([PRICE, PRICE]);
  });
});

const disabled = [{ service_id: 1, job_index: 7, invocation_mode: "disabled" }];
const changes: Record<string, Partial<TestX402Options>> = {
  "the facilitator is gone": { x402: { facilitator_url: "http://127.0.0.1:1" }, early: true },
  "the job is disabled": { x402: { job_policies: disabled } },
  "the queue is full": { limits: { queue_depth_max: 1 } },
};
test.each(sample(Object.entries(changes)))(
  "a new payment under a used identifier gets the stored answer though %s, and 409 with another body",
  async (_name, change) => {
    const before = await fixture.gateway();
    const first = await before.post(await payFor(before, ORDER_ID));
    const [again, other] = [await payFor(before, ORDER_ID), await payFor(before, ORDER_ID)];
    await fixture.stop(before);
    const after = await fixture.gateway(change);
    await expect.poll(() => waitingSeen(after), { timeout: 10_000 }).toBe(1);
    const answer = await after.post(again);
    expect([answer.status, withoutPayerFields(answer)]).toEqual([202, withoutPayerFields(first)]);
    expect((await after.post(other, { body: "other" })).json()["code"]).toBe("payment.identifier_conflict");
    expect(await fixture.charged()).toEqual([PRICE]);
  },
);

onlyInLongRun(() => {
  test("a payer without money left gets the stored answer for a new payment under a used identifier", async () => {
    const x402 = await fixture.gateway();
    const payer = await newPayer(fixture.devnet, PRICE);
    const first = await x402.post(await payFor(x402, ORDER_ID, payer));
    const again = await x402.post(await payFor(x402, ORDER_ID, payer));
    expect([again.status, withoutPayerFields(again)]).toEqual([202, withoutPayerFields(first)]);
    expect(await fixture.charged(payer)).toEqual([PRICE]);
  });
});

const ill: Record<string, unknown> = {
  "an id that is too short": { info: { required: false, id: "short" } },
  "an id that is too long": { info: { required: false, id: "a".repeat(129) } },
  "an id with a space": { info: { required: false, id: "no spaces are allowed" } },
  "an id that is a number": { info: { required: false, id: 1_234_567_890_123_456 } },
  "an id that is null": { info: { required: false, id: null } },
  "an id that is a list": { info: { required: false, id: [ORDER_ID] } },
  "no member required": { info: { id: ORDER_ID } },
  "a required that is a string": { info: { required: "false", id: ORDER_ID } },
  "its id outside of info": { required: false, id: ORDER_ID },
  "an info that is a string": { info: ORDER_ID },
  "an info that is a list": { info: [{ required: false, id: ORDER_ID }] },
  "the id alone": ORDER_ID,
  null: null,
  "a list": [],
};
test.each(sample(Object.entries(ill)))(
  "a payment-identifier with %s is refused with 402, because its client relies on it",
  async (_what, entry) => {
    const x402 = await fixture.gateway();
    const extensions = { "payment-identifier": entry };
    const headers = await x402.pay({ payer: fixture.payer }, { extensions } as Partial<PaymentPayload>);
    const answer = await x402.post(headers);
    expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.malformed"]);
    expect(answer.json()["detail"]).toMatch(/^extensions\.payment-identifier/);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    expect(await fixture.charged()).toEqual([]);
  },
);

test("a client that only repeats our declaration has no identifier: two of its payments are two jobs", async () => {
  const x402 = await fixture.gateway();
  const { extensions } = (await x402.ask()).v2;
  for (let times = 0; times < 2; times++)
    expect((await x402.post(await x402.pay({ payer: fixture.payer }, { extensions } as never))).status).toBe(
      202,
    );
  expect(await fixture.charged()).toEqual([PRICE, PRICE]);
});
