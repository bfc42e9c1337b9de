import { describe, expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../fixtures/x402.ts";
import { send } from "../../../support/http.ts";
import { DECLARED, declaring, FITS, schemaOfBytes } from "../job-inputs.ts";

const fixture = useX402();

describe("200", () => {
  test.each([1000, 60_000])(
    "a job's schema of %i bytes is returned as it is in the configuration",
    async (bytes) => {
      const schema = schemaOfBytes(bytes);
      const x402 = await fixture.gateway({
        prices: { "7": { ...DECLARED, input_schema: schema, input_example: {} } },
      });
      const answer = await send(x402.address, { method: "GET", path: `${JOB_PATH}/schema` });
      expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/schema+json"]);
      expect(answer.json()).toEqual(schema);
      expect(answer.headers["access-control-allow-origin"]).toBe("*");
      const head = await send(x402.address, { method: "HEAD", path: `${JOB_PATH}/schema` });
      expect([head.status, head.text]).toEqual([200, ""]);
    },
  );
});

describe("403", () => {
  test("the schema of a disabled job is 403, and the answer has no part of it", async () => {
    const job_policies = [{ service_id: 1, job_index: 7, invocation_mode: "disabled" }];
    const x402 = await fixture.gateway({ ...declaring, x402: { job_policies } });
    const answer = await send(x402.address, { method: "GET", path: `${JOB_PATH}/schema` });
    expect([answer.status, answer.json()["code"]]).toEqual([403, "job.disabled"]);
    expect(answer.text).not.toContain("items");
  });
});

describe("404", () => {
  test("the schema of a job that declares none is 404, as is that of a job without a price", async () => {
    const x402 = await fixture.gateway();
    const without = await send(x402.address, { method: "GET", path: `${JOB_PATH}/schema` });
    expect([without.status, without.json()["code"]]).toEqual([404, "request.not_found"]);
    expect(without.json()["detail"]).toContain("it accepts any body");
    const unknown = await send(x402.address, { method: "GET", path: "/x402/jobs/1/8/schema" });
    expect([unknown.status, unknown.json()["code"]]).toEqual([404, "job.not_found"]);
  });
});

describe("405", () => {
  test("POST to a job's schema is 405 even with a payment, which stays unused, and allows GET, HEAD and OPTIONS", async () => {
    const x402 = await fixture.gateway(declaring);
    const headers = await x402.pay({ payer: fixture.payer });
    const answer = await send(x402.address, { path: `${JOB_PATH}/schema`, headers, body: FITS });
    expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD, OPTIONS"]);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });
});
