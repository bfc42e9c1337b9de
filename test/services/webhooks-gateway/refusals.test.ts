import { expect, test } from "vitest";
import { createMeters } from "../../../services/webhooks-gateway/metrics.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { metered } from "../../../shared/platform/log/metered.ts";
import { createMetrics } from "../../../shared/platform/metrics/metrics.ts";
import { type TestWebhooks, useWebhooks } from "../../fixtures/webhooks.ts";
import { type Sent, send } from "../../support/http.ts";
import { sample } from "../../support/long-run.ts";
import type { RecordingLog } from "../../support/recording-log.ts";
import { SECRET, utf8 } from "./receive/credentials.ts";

const webhooks = useWebhooks();
const NOW = 1_800_000_000_000;

const endpoints = [
  { path: "/hmac", job_id: 1, auth: "hmac-sha256", secret: SECRET, body_limit_bytes: 1024 * 1024 },
  { path: "/small", job_id: 1, auth: "hmac-sha256", secret: SECRET, body_limit_bytes: 1 },
  { path: "/elsewhere", job_id: 1, auth: "none", allow_ips: ["203.0.113.0/24"] },
  { path: "/meta", job_id: 1, preset: "meta", secret: SECRET, verify_token: "a token of twenty chars" },
  {
    path: "/limited",
    job_id: 1,
    auth: "bearer",
    secret: SECRET,
    rate_limit: { per_second: 0.001, burst: 1 },
  },
];

const lines = ({ events }: RecordingLog) => events.filter(({ event }) => event === "webhook.refused");

/** Resolves with the number of refusals that were counted instead of logged, once all were counted. */
const unlogged = ({ log }: TestWebhooks, times: number) =>
  eventually("all refusals are counted", () => {
    const counts = log.events.filter(({ event }) => event === "webhook.refusals_unlogged");
    const sum = counts.reduce((before, { fields }) => before + Number(fields["times"]), 0);
    return sum === times ? counts[0] : undefined;
  });

const floods: [string, Sent, string, string?][] = [
  ["another method", { method: "GET", path: "/hmac" }, "request.method_not_allowed"],
  ["an address outside allow_ips", { path: "/elsewhere" }, "request.address_refused"],
  ["a body over the limit", { path: "/small", body: "xx" }, "request.too_large", "X-Signature-256"],
  ["a wrong signature", { path: "/hmac", body: "x" }, "webhook.credential_rejected", "X-Signature-256"],
  [
    "a handshake without proof",
    { method: "GET", path: "/meta?hub.mode=subscribe&hub.challenge=1" },
    "webhook.handshake_refused",
  ],
];

test.each(sample(floods))(
  "a flood of requests with %s writes few log lines, and every request is counted",
  async (_what, sent, code, header) => {
    const limits = { refusals_per_minute: 1000 };
    const gateway = await webhooks.start({ endpoints, clock: () => NOW, webhooks: limits });
    const headers = header === undefined ? {} : { [header]: `sha256=${"0".repeat(64)}` };
    for (let i = 0; i < 120; i += 1) await send(gateway.address, { ...sent, headers });
    const { length } = lines(gateway.log);
    // The path may have 50 entries, plus at most 50 more if Redis is slow to store them.
    expect(length).toBeGreaterThanOrEqual(50);
    expect(length).toBeLessThanOrEqual(100);
    expect((await unlogged(gateway, 120 - length))?.fields).toMatchObject({ code });
  },
);

test("a body that is cut at the budget is counted and not logged separately", async () => {
  const http = { body_budget_bytes: 16 * 1024 };
  const gateway = await webhooks.start({ endpoints, http });
  const headers = { "X-Signature-256": `sha256=${"0".repeat(64)}` };
  const deliver = () => send(gateway.address, { path: "/hmac", headers, body: Buffer.alloc(200_000) });
  for (let i = 0; i < 3; i += 1) expect((await deliver()).json()["code"]).toBe("request.over_budget");
  expect((await unlogged(gateway, 3))?.fields).toEqual({
    path: "/hmac",
    code: "request.over_budget",
    times: 3,
  });
  expect(lines(gateway.log)).toEqual([]);
});

test("while Redis is unavailable an unverified request is counted and not logged separately", async () => {
  const gateway = await webhooks.start({ endpoints, early: true, redisUrl: "redis://127.0.0.1:1" });
  for (let i = 0; i < 3; i += 1)
    expect((await send(gateway.address, { path: "/hmac", body: "x" })).status).toBe(503);
  await unlogged(gateway, 3);
  expect(lines(gateway.log)).toEqual([]);
});

test("while Redis is unavailable, guesses at a handshake's token are limited as always", async () => {
  const limits = { refusals_per_minute: 2 };
  const away = { early: true, redisUrl: "redis://127.0.0.1:1", webhooks: limits };
  const { address } = await webhooks.start({ endpoints, ...away });
  const path = "/meta?hub.mode=subscribe&hub.challenge=1&hub.verify_token=a+guess";
  const statuses: number[] = [];
  for (let i = 0; i < 4; i += 1) statuses.push((await send(address, { method: "GET", path })).status);
  expect(statuses).toEqual([403, 403, 429, 429]);
});

test("refused requests with a valid credential are logged one by one", async () => {
  const gateway = await webhooks.start({ endpoints, clock: () => NOW });
  const headers = ["Authorization", utf8(`Bearer ${SECRET}`)];
  for (let i = 0; i < 61; i += 1) await send(gateway.address, { path: "/limited", headers, body: "x" });
  expect(lines(gateway.log)).toHaveLength(60);
});

test("the metrics count refusals with and without a log line alike", async () => {
  const metrics = createMetrics();
  const log = metered(silentLogger, createMeters(metrics));
  const refused = { path: "/a", code: "webhook.credential_rejected" };
  log.warn("webhook.refused", { ...refused, reason: "missing: header x", ms: 1 });
  log.warn("webhook.refusals_unlogged", { ...refused, reason: "missing", times: 4 });
  log.warn("webhook.refusals_unlogged", { path: "/a", code: "request.over_budget", times: 2 });
  const text = await metrics.text();
  expect(text).toContain('postern_webhooks_total{path="/a",code="webhook.credential_rejected"} 5\n');
  expect(text).toContain('postern_webhooks_total{path="/a",code="request.over_budget"} 2\n');
  expect(text).toContain('postern_auth_failures_total{path="/a",reason="missing"} 5\n');
});
