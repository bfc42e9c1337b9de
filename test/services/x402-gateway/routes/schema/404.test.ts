import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";

const fixture = useX402();

test("the schema of a job that declares none is 404, as is that of a job without a price", async () => {
  const x402 = await fixture.gateway();
  const without = await send(x402.address, { method: "GET", path: `${JOB_PATH}/schema` });
  expect([without.status, without.json()["code"]]).toEqual([404, "request.not_found"]);
  expect(without.json()["detail"]).toContain("it takes any body");
  const unknown = await send(x402.address, { method: "GET", path: "/x402/jobs/1/8/schema" });
  expect([unknown.status, unknown.json()["code"]]).toEqual([404, "job.not_found"]);
});
