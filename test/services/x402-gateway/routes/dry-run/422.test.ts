import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { DRY_RUN, declaring, FITS, UNFIT } from "../../job-inputs.ts";
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
