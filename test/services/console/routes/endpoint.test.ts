import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { writeConfig } from "../../../../shared/config/config-tables.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useReports } from "../../../fixtures/reports.ts";
import { tempDir } from "../../../support/temp-dir.ts";

const fixture = useOperator();
const reports = useReports(fixture.redis);
const SECRET = "a-secret-that-nobody-is-shown";

function start() {
  const configDir = join(tempDir(), "config");
  const hidden = { callback_url: `https://hooks.example.com/?key=${SECRET}` };
  const publicUrl = `https://hooks.example.com/a?token=${SECRET}`;
  const rate = { rate_limit: { per_second: 5, burst: 10 }, allow_ips: ["192.0.2.0/24"] };
  const endpoints = [
    {
      path: "/hooks/a",
      job_id: 1,
      auth: "bearer",
      secret: SECRET,
      public_url: publicUrl,
      ...rate,
      ...hidden,
    },
    { path: "/hooks/b", job_id: 1, auth: "none" },
  ];
  writeConfig(configDir, { postern: {}, webhooks: { bind_address: "0.0.0.0:9191", endpoints } });
  return fixture.start({ configDir });
}

describe("200", () => {
  test("an endpoint is shown with its settings, its URL and its requests over time, and without secrets", async () => {
    const { get } = await start();
    const { log, flush } = await reports.start();
    log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: false });
    log.warn("webhook.refused", { path: "/hooks/a", code: "request.rate_limited" });
    log.warn("webhook.refused", { path: "/hooks/b", code: "request.rate_limited" });
    await flush();
    const answer = await get("/api/v1/endpoint?path=/hooks/a", { as: "viewer" });
    const endpoint = answer.json() as { flow: Record<"accepted" | "refused", number[]> };
    expect(endpoint).toMatchObject({
      ...{ path: "/hooks/a", configured: true, state: "enabled", url: "https://hooks.example.com/a" },
      settings: {
        job_id: "1",
        allow_ips: '["192.0.2.0/24"]',
        rate_limit: '{"per_second":5,"burst":10}',
      },
      flow: { step_ms: 60_000 },
    });
    expect(endpoint.flow.accepted.reduce((sum, each) => sum + each, 0)).toBe(1);
    expect(endpoint.flow.refused.reduce((sum, each) => sum + each, 0)).toBe(1);
    expect(answer.text).not.toContain(SECRET);
    const other = await get("/api/v1/endpoint?path=/hooks/b&span=24h");
    expect(other.json()).toMatchObject({ url: "http://127.0.0.1:9191/hooks/b", flow: { step_ms: 300_000 } });
  });
});

describe("400", () => {
  test.each(["", "?path=", "?path=/hooks/a&span=2h"])(
    "a request without a path or with an unknown span is refused: %j",
    async (query) => {
      const { get } = await start();
      expect(refusalOf(await get(`/api/v1/endpoint${query}`))).toEqual([400, "request.malformed"]);
    },
  );
});

describe("404", () => {
  test("a path that is neither configured nor had requests is not found", async () => {
    const { get } = await start();
    expect(refusalOf(await get("/api/v1/endpoint?path=/nowhere"))).toEqual([404, "request.not_found"]);
  });
});
