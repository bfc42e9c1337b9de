import type { PaymentPayload } from "@x402/core/types";
import { appendPaymentIdentifierToExtensions } from "@x402/extensions/payment-identifier";
import { expect, test } from "vitest";
import { keys } from "../../../../fixtures/redis.ts";
import { PRICE, signOffer, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import type { Answer } from "../../../../support/http.ts";
import { signedIn } from "../../../../support/sign-payment.ts";
import { honouringQuotes, QUOTED, quoteOf, signQuote } from "../../operator-quotes.ts";

const fixture = useX402();
const twoJobs = { prices: { "7": "1000000000000000", "8": "1000000000000000" } };

test("a payment that comes again with another body or for another job is refused with 409, and is still one job", async () => {
  const x402 = await fixture.gateway(twoJobs);
  const headers = await x402.pay({ payer: fixture.payer });
  await x402.post(headers);
  const others: Parameters<typeof x402.post>[1][] = [
    { body: "jello" },
    { body: "" },
    { body: "hello, and more" },
    { path: "/x402/jobs/1/8" },
  ];
  for (const other of others) {
    const answer = await x402.post(headers, other);
    expect([answer.status, answer.json()["code"]]).toEqual([409, "payment.conflict"]);
    expect(answer.headers["payment-required"]).toBeUndefined();
  }
  expect(await x402.waiting()).toHaveLength(1);
  expect((await fixture.asked()).settle).toBe(1);
});

test("a payment that comes again for a job that is now disabled, with another body, is refused with 409", async () => {
  const before = await fixture.gateway();
  const headers = await before.pay({ payer: fixture.payer });
  await before.post(headers);
  await fixture.stop(before);
  const job_policies = [{ service_id: 1, job_index: 7, invocation_mode: "disabled" }];
  const after = await fixture.gateway({ x402: { job_policies } });
  expect((await after.post(headers, { body: "other" })).status).toBe(409);
});

/** Without a new offer: the payment is well, but it is not for here. */
function expectSpentElsewhere(answer: Answer): void {
  expect([answer.status, answer.json()["code"]]).toEqual([409, "payment.spent_elsewhere"]);
  expect(answer.headers["payment-required"]).toBeUndefined();
}

test("an authorization that is used up is refused with 409 when nothing is remembered of it", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  const id = String((await x402.post(headers)).json()["call_id"]);
  await x402.redis.del(keys.record(id), keys.payment(id));
  await fixture.devnet.control.clearRequests();
  expectSpentElsewhere(await x402.post(headers));
  expect((await fixture.asked()).settle).toBe(0);
  expect(await x402.journal.find(id)).toBeUndefined();
});

test("an authorization that somebody used before it came here is refused with 409, and makes no call", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  const signed = signedIn(headers);
  fixture.foreign.push(signed.authorization.nonce);
  await fixture.devnet.chain.frontRun(signed);
  expectSpentElsewhere(await x402.post(headers));
  expect(await x402.waiting()).toEqual([]);
});

test("an authorization that was cancelled is refused with 409, though a facilitator calls it valid", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  const { nonce } = signedIn(headers).authorization;
  await fixture.devnet.chain.cancelAuthorization(fixture.payer, nonce);
  await fixture.devnet.control.fault({ on: "verify", kind: "accept", times: 1 });
  expectSpentElsewhere(await x402.post(headers));
  expect((await fixture.asked()).settle).toBe(0);
});

test("of two bodies at once under one payment, one is paid for and the other is refused with 409", async () => {
  const replicas = [await fixture.gateway(), await fixture.gateway()] as [TestX402, TestX402];
  const headers = await replicas[0].pay({ payer: fixture.payer });
  const answers = await Promise.all(
    replicas.map((replica, i) => replica.post(headers, { body: ["one", "two"][i] as string })),
  );
  expect(answers.map(({ status }) => status).sort()).toEqual([202, 409]);
  const [call] = await replicas[0].waiting();
  const winner = answers.findIndex(({ status }) => status === 202);
  expect(Buffer.from(String(call?.body), "base64").toString()).toBe(["one", "two"][winner]);
  expect((await fixture.asked()).settle).toBe(1);
});

test("a new payment under an identifier that was used for another request is refused with 409, and not charged", async () => {
  const x402 = await fixture.gateway(twoJobs);
  const payFor = async (id: string): Promise<Record<string, string>> => {
    const extensions = structuredClone((await x402.ask()).v2.extensions ?? {});
    appendPaymentIdentifierToExtensions(extensions, id);
    return x402.pay({ payer: fixture.payer }, { extensions } as Partial<PaymentPayload>);
  };
  await x402.post(await payFor("order_0123456789abcdef"));
  const answer = await x402.post(await payFor("order_0123456789abcdef"), { body: "other" });
  expect([answer.status, answer.json()["code"]]).toEqual([409, "payment.identifier_conflict"]);
  expect(await fixture.charged()).toEqual([PRICE]);
});

test("a new payment by an operator's quote that another payment has used is refused with 409, and not charged", async () => {
  const x402 = await fixture.gateway(honouringQuotes);
  const { header } = signQuote(quoteOf(fixture.payer));
  const pay = async () => ({
    ...header,
    ...(await signOffer(await x402.post(header), { payer: fixture.payer })),
  });
  const [first, second] = [await pay(), await pay()];
  expect((await x402.post(first)).status).toBe(202);
  const answer = await x402.post(second);
  expect([answer.status, answer.json()["code"]]).toEqual([409, "quote.used"]);
  expect(await fixture.charged()).toEqual([QUOTED]);
});
