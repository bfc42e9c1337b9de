import { expect, test } from "vitest";
import { openJobs } from "../../../../../shared/queue/jobs.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { auditOf } from "../../audit-of.ts";

const fixture = useOperator();

test("a job is paused once, with a line in the audit that says who and why; again it is unchanged", async () => {
  const { post } = await fixture.start();
  const paused = await post("/api/v1/jobs/7/1/pause", { reason: "  it loops " });
  expect([paused.status, paused.json()]).toMatchObject([
    200,
    { changed: true, job: { state: "paused", paused: { by: "otto", reason: "it loops" } } },
  ]);
  const again = await post("/api/v1/jobs/7/1/pause", { reason: "another" });
  expect(again.json()).toMatchObject({ changed: false, job: { paused: { reason: "it loops" } } });
  expect((await openJobs(fixture.redis.partition).gates()).get("7/1")?.pausedBy).toBe("otto");
  expect(await auditOf(fixture.redis)).toMatchObject([
    { action: "pause", job: "7/1", by: "otto", selection: "by name", reason: "it loops" },
  ]);
});
