import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";

const fixture = useX402();

test.each(["/x402/jobs/1/4294967295", "/x402/jobs/2/7", "/x402/jobs/0/0"])(
  "an unpaid request for %s, a job without a price, is refused with 404, and the answer names the job",
  async (path) => {
    const x402 = await fixture.gateway();
    const answer = await x402.post({}, { path });
    const [serviceId, jobIndex] = path.split("/").slice(3).map(Number);
    expect(answer.status).toBe(404);
    expect(answer.json()).toMatchObject({
      error: "job not found",
      code: "job.not_found",
      service_id: serviceId,
      job_index: jobIndex,
    });
    expect(answer.headers["payment-required"]).toBeUndefined();
  },
);
