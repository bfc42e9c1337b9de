import { describe, expect, test } from "vitest";
import { createEnqueue } from "../../../../services/webhooks-gateway/enqueue.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { aCall } from "../../../fixtures/producer.ts";

const fixture = useOperator();

describe("200", () => {
  test("one job is shown with the same fields as in the list", async () => {
    const { get } = await fixture.start();
    await createEnqueue(fixture.redis.partition)(aCall());
    const shown = await get("/api/v1/jobs/7/1");
    expect([shown.status, shown.json()]).toMatchObject([200, { job: "7/1", state: "running", waiting: 1 }]);
  });
});

describe("404", () => {
  test("a job that has neither a queue nor a setting gets 404", async () => {
    const { get } = await fixture.start();
    expect(refusalOf(await get("/api/v1/jobs/7/99"))).toEqual([404, "job.not_found"]);
  });

  test.each([
    "/api/v1/jobs/7",
    "/api/v1/jobs/a/1",
    "/api/v1/jobs/07/1",
    "/api/v1/jobs/7/1/",
    "/api/v1/jobs/7/%30%31",
  ])("%s is not the path of a job: 404", async (path) => {
    const { get } = await fixture.start();
    expect(refusalOf(await get(path))).toEqual([404, "request.not_found"]);
  });
});
