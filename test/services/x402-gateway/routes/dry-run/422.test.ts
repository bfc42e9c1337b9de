import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { DRY_RUN, declaring, ENDLESS, FITS, UNFIT } from "../../job-inputs.ts";
import { expectRefusedAlike } from "./refused-alike.ts";

const fixture = useX402();

test("a dry-run tells with 422 that the body does not fit the job's schema, with a payment or without", async () => {
  const x402 = await fixture.gateway(declaring);
  const headers = await x402.pay({ payer: fixture.payer });
  await expectRefusedAlike(fixture, x402, {
    headers,
    body: UNFIT,
    status: 422,
    code: "request.input_invalid",
  });
  const unpaid = await x402.post({}, { path: DRY_RUN, body: UNFIT });
  expect([unpaid.status, unpaid.json()["errors"]]).toEqual([
    422,
    [{ pointer: "#/items/1", detail: "must be integer" }],
  ]);
  for (const each of [headers, {}])
    expect((await x402.post(each, { path: DRY_RUN, body: FITS })).json()["allowed"]).toBe(true);
  expect((await fixture.asked()).settle).toBe(0);
});

test("dry-runs whose bodies take long to check are refused with 429 after some sixty a minute, whoever sends them, and payments are not", async () => {
  const x402 = await fixture.gateway({ ...declaring, http: { trustedProxies: ["127.0.0.1"] } });
  const payment = await x402.pay({ payer: fixture.payer });
  const statuses: number[] = [];
  while (statuses.at(-1) !== 429 && statuses.length < 200) {
    const headers = { "X-Forwarded-For": `192.0.2.${statuses.length}` };
    statuses.push((await x402.post(headers, { path: DRY_RUN, body: ENDLESS })).status);
  }
  expect(new Set(statuses.slice(0, 60))).toEqual(new Set([422]));
  expect(statuses.at(-1)).toBe(429);
  expect((await x402.post(payment, { body: ENDLESS })).status).toBe(422);
  expect((await x402.post(payment, { body: FITS })).status).toBe(202);
}, 60_000);
