import { describe, expect, test } from "vitest";
import { useOperator } from "../../../fixtures/console.ts";
import { auditOf } from "../audit-of.ts";

const fixture = useOperator();

describe("200", () => {
  test("a paused job is resumed once, with an audit line, and a second resume changes nothing", async () => {
    const { post } = await fixture.start();
    await post("/api/v1/jobs/7/1/pause", { reason: "it loops" });
    const resumed = await post("/api/v1/jobs/7/1/resume", { reason: "mended" });
    expect([resumed.status, resumed.json()]).toMatchObject([
      200,
      { changed: true, job: { state: "running" } },
    ]);
    expect((await post("/api/v1/jobs/7/1/resume", { reason: "mended" })).json()).toMatchObject({
      changed: false,
    });
    expect(await auditOf(fixture.redis)).toMatchObject([
      { action: "pause" },
      { action: "resume", job: "7/1", by: "otto", reason: "mended" },
    ]);
  });
});
