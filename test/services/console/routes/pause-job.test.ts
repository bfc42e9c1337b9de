import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { openJobs } from "../../../../shared/queue/jobs.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { auditOf } from "../audit-of.ts";

describe("200", () => {
  const fixture = useOperator();

  test("a job is paused once, with author and reason in the audit log, and a second pause changes nothing", async () => {
    const { post } = await fixture.start();
    const paused = await post("/api/v1/jobs/7/1/pause", { reason: "  it loops " });
    expect([paused.status, paused.json()]).toMatchObject([
      200,
      { changed: true, job: { state: "paused", paused: { by: "otto", reason: "it loops" } } },
    ]);
    const again = await post("/api/v1/jobs/7/1/pause", { reason: "another" });
    expect(again.json()).toMatchObject({ changed: false, job: { paused: { reason: "it loops" } } });
    expect((await openJobs(fixture.redis.partitions).gates()).get("7/1")?.pausedBy).toBe("otto");
    expect(await auditOf(fixture.redis)).toMatchObject([
      { action: "pause", job: "7/1", by: "otto", selection: "by name", reason: "it loops" },
    ]);
  });
});

describe("400", () => {
  const fixture = useOperator();

  test.each([
    [{}],
    [{ reason: "  " }],
    [{ reason: 1 }],
    [{ reason: "x".repeat(1001) }],
    [{ reason: "x", job: "7/2" }],
  ])("a pause without a valid reason is refused with 400, and nothing changes: %j", async (json) => {
    const { post, get } = await fixture.start();
    const refused = await post("/api/v1/jobs/7/1/pause", json);
    expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
    expect((await get("/api/v1/jobs")).json()).toEqual({ jobs: [], next: null });
    expect(await auditOf(fixture.redis)).toEqual([]);
  });

  test("a body that is not JSON or not UTF-8 is refused with 400", async () => {
    const { ask } = await fixture.start();
    for (const body of ["{", Buffer.from([0x22, 0xff, 0x22])]) {
      const headers = { "Content-Type": "application/json", "Content-Length": String(body.length) };
      const answer = await ask("POST", "/api/v1/jobs/7/1/pause", { headers, ...{ body } });
      expect(refusalOf(answer)).toEqual([400, "request.malformed"]);
    }
  });
});

describe("413", () => {
  const fixture = useOperator();

  test("a body that is longer than any valid request is refused with 413", async () => {
    const { post } = await fixture.start();
    const refused = await post("/api/v1/jobs/7/1/pause", { reason: "x".repeat(200_000) });
    expect(refusalOf(refused)).toEqual([413, "request.too_large"]);
  });
});

describe("415", () => {
  const fixture = useOperator();
  const JSON_BODY = Buffer.from('{"reason":"x"}');

  test.each([
    ["gzip", gzipSync(JSON_BODY)],
    ["gzip", JSON_BODY],
    ["br", JSON_BODY],
  ])("a body with Content-Encoding: %s is refused with 415, and nothing is paused", async (coding, body) => {
    const { ask, get } = await fixture.start();
    const headers = {
      "Content-Type": "application/json",
      "Content-Encoding": coding,
      "Content-Length": String(body.length),
    };
    const refused = await ask("POST", "/api/v1/jobs/7/1/pause", { headers, ...{ body } });
    expect(refusalOf(refused)).toEqual([415, "request.encoding_unsupported"]);
    expect((await get("/api/v1/jobs")).json()).toEqual({ jobs: [], next: null });
  });
});
