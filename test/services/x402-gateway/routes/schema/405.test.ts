import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";
import { declaring, FITS } from "../../job-inputs.ts";

const fixture = useX402();

test("POST to a job's schema is 405 even with a payment, which is not taken, and allows GET, HEAD and OPTIONS", async () => {
  const x402 = await fixture.gateway(declaring);
  const headers = await x402.pay({ payer: fixture.payer });
  const answer = await send(x402.address, { path: `${JOB_PATH}/schema`, headers, body: FITS });
  expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD, OPTIONS"]);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});
