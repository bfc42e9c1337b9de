import { expect, test } from "vitest";
import { PRICE, signOffer, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";
import { DECLARED, declaring, ENDLESS, FITS, UNFIT } from "../../job-inputs.ts";
import { BY_PAYER, restrictedJobs } from "../../restricted-jobs.ts";

const fixture = useX402();

test("a paid body that does not fit the job's schema is 422 before anybody is asked, is told where, and its payment stays good", async () => {
  const x402 = await fixture.gateway(declaring);
  const payment = await x402.pay({ payer: fixture.payer });
  const answer = await x402.post(payment, { body: UNFIT });
  expect(answer.status).toBe(422);
  expect(answer.headers["content-type"]).toBe("application/problem+json");
  expect(answer.json()).toMatchObject({
    code: "request.input_invalid",
    detail: "the body does not fit the job's input schema: #/items/1 must be integer",
    errors: [{ pointer: "#/items/1", detail: "must be integer" }],
  });
  expect(answer.headers["payment-required"]).toBeUndefined();
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  expect(await fixture.charged()).toEqual([]);
  expect((await x402.post(payment, { body: FITS })).status).toBe(202);
  expect(await fixture.charged()).toEqual([PRICE]);
});

test("a body of a job with a schema is taken as JSON whatever its Content-Type says, and no body does not fit", async () => {
  const x402 = await fixture.gateway(declaring);
  const payment = await x402.pay({ payer: fixture.payer });
  for (const body of ["", "hello", Buffer.from([0xff, 0xfe])])
    expect((await x402.post(payment, { body })).status).toBe(422);
  const typed = { ...payment, "Content-Type": "text/plain" };
  expect((await x402.post(typed, { body: FITS })).status).toBe(202);
});

test("a payment of version 1 with a body that does not fit is 422 too", async () => {
  const x402 = await fixture.gateway(declaring);
  const payment = await x402.payV1({ payer: fixture.payer });
  expect((await x402.post(payment, { body: UNFIT })).status).toBe(422);
  expect(await fixture.charged()).toEqual([]);
  expect((await x402.post(payment, { body: FITS })).status).toBe(202);
});

test("a body that does not fit is refused before the contract is asked whether its caller is permitted", async () => {
  const restricted = restrictedJobs(fixture.devnet);
  const index = BY_PAYER.split("/").at(-1) as string;
  const x402 = await fixture.gateway({
    ...restricted,
    prices: { ...restricted.prices, [index]: { ...DECLARED, name: "for-some" } },
  });
  const payment = await signOffer(await x402.post({}, { path: BY_PAYER }), { payer: fixture.payer });
  expect((await x402.post(payment, { path: BY_PAYER, body: UNFIT })).status).toBe(422);
  expect((await x402.post(payment, { path: BY_PAYER, body: FITS })).status).toBe(403);
});

test("a payment that is known gets its answer again, whatever its job's schema says by now", async () => {
  const before = await fixture.gateway();
  const payment = await before.pay({ payer: fixture.payer });
  expect((await before.post(payment, { body: UNFIT })).status).toBe(202);
  const after = await fixture.gateway(declaring);
  const again = await after.post(payment, { body: UNFIT });
  expect([again.status, again.headers["idempotent-replayed"]]).toEqual([202, "true"]);
});

test("an answer to a body that does not fit holds a bounded part of it", async () => {
  const x402 = await fixture.gateway({
    prices: { "7": { ...DECLARED, input_schema: { additionalProperties: { type: "array" } } } },
  });
  const payment = await x402.pay({ payer: fixture.payer });
  const answer = await x402.post(payment, {
    body: JSON.stringify({ ["x".repeat(10_000)]: "y".repeat(9000) }),
  });
  expect(answer.status).toBe(422);
  expect(answer.text.length).toBeLessThan(1000);
});

test("a browser's page may read that a body does not fit", async () => {
  const x402 = await fixture.gateway(declaring);
  const payment = await x402.pay({ payer: fixture.payer });
  const headers = { ...payment, Origin: "https://shop.example" };
  const answer = await send(x402.address, { path: "/x402/jobs/1/7", headers, body: [UNFIT] });
  expect([answer.status, answer.headers["access-control-allow-origin"]]).toEqual([422, "*"]);
});

test("an address whose bodies take long to check is refused with 429 after some thirty a minute, and charged nothing", async () => {
  const x402 = await fixture.gateway(declaring);
  const payment = await x402.pay({ payer: fixture.payer });
  const statuses: number[] = [];
  while (statuses.at(-1) !== 429 && statuses.length < 60)
    statuses.push((await x402.post(payment, { body: ENDLESS })).status);
  expect(new Set(statuses.slice(0, 30))).toEqual(new Set([422]));
  expect(statuses.at(-1)).toBe(429);
  expect(await fixture.charged()).toEqual([]);
  x402.skip(5000);
  expect((await x402.post(payment, { body: FITS })).status).toBe(202);
}, 60_000);
