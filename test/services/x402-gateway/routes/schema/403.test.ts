import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";
import { declaring } from "../../job-inputs.ts";

const fixture = useX402();

test("the schema of a disabled job is 403, and the answer has nothing of it", async () => {
  const job_policies = [{ service_id: 1, job_index: 7, invocation_mode: "disabled" }];
  const x402 = await fixture.gateway({ ...declaring, x402: { job_policies } });
  const answer = await send(x402.address, { method: "GET", path: `${JOB_PATH}/schema` });
  expect([answer.status, answer.json()["code"]]).toEqual([403, "job.disabled"]);
  expect(answer.text).not.toContain("items");
});
