import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";

const fixture = useX402();

test.each(["GET", "HEAD", "PUT", "PATCH", "DELETE"])(
  "%s of a job's path is 405 even with a payment, allows POST and OPTIONS, and no facilitator is asked",
  async (method) => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    const answer = await send(x402.address, { method, path: JOB_PATH, headers });
    expect([answer.status, answer.headers.allow]).toEqual([405, "POST, OPTIONS"]);
    if (method !== "HEAD") expect(answer.json()["detail"]).toMatch(/^use POST: a job is bought with POST/);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  },
);
