import { createHmac } from "node:crypto";
import { gzipSync } from "node:zlib";
import { beforeAll, expect, test } from "vitest";
import { createMeters } from "../../../../services/webhooks-gateway/metrics.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { metered } from "../../../../shared/platform/log/metered.ts";
import { createMetrics } from "../../../../shared/platform/metrics/metrics.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { type Sent, send } from "../../../support/http.ts";

const NOW = Date.parse("2026-11-22T12:00:00Z");
const TIME = String(NOW / 1000);
const SECRET = "a secret of one's own";
const own = { job_id: 1, secret: SECRET };
const endpoints = [
  { ...own, path: "/slack", preset: "slack" },
  { ...own, path: "/bitbucket", preset: "bitbucket" },
  { ...own, path: "/woocommerce", preset: "woocommerce" },
  {
    ...own,
    path: "/by-query",
    auth: "token",
    token_query: "token",
    handshakes: [{ when: { "{header:X-Ping}": "1" }, proof: "none" }],
  },
  { path: "/dropbox", preset: "dropbox", ...own },
];

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints, clock: () => NOW });
});

const FORM = ["Content-Type", "application/x-www-form-urlencoded"];
const PING = ["X-Event-Key", "diagnostics:ping"];

const macOf = (text: string, encoding: "hex" | "base64" = "hex") =>
  createHmac("sha256", SECRET).update(text).digest(encoding);

function slack(body: string, signed = body): Sent {
  const signature = `v0=${macOf(`v0:${TIME}:${signed}`)}`;
  const headers = [...FORM, "X-Slack-Request-Timestamp", TIME, "X-Slack-Signature", signature];
  return { path: "/slack", headers, body };
}

const unsigned = (body: string | string[], headers = FORM): Sent => ({ path: "/slack", headers, body });

const refused: [string, Sent][] = [
  ["a wrong signature", slack("ssl_check=1", "ssl_check=2")],
  ["an empty signature", unsigned("ssl_check=1", [...FORM, "X-Slack-Signature", ""])],
  ["an unexpected Authorization header", unsigned("ssl_check=1", [...FORM, "Authorization", "Bearer x"])],
  ["an additional field of a command", unsigned("ssl_check=1&command=%2Fdeploy")],
  ["a repeated field", unsigned("ssl_check=1&ssl_check=1")],
  ["two tokens", unsigned("ssl_check=1&token=a&token=b")],
  ["another value", unsigned("ssl_check=2")],
  ["only a token", unsigned("token=a")],
  ["no body", unsigned("")],
  ["more than 1 KiB", unsigned(`ssl_check=1&token=${"a".repeat(1024)}`)],
  ["no declared length", unsigned(["ssl_check=1"])],
  ["another type", unsigned("ssl_check=1", ["Content-Type", "application/json"])],
  [
    "an encoding",
    { path: "/slack", headers: [...FORM, "Content-Encoding", "gzip"], body: gzipSync("ssl_check=1") },
  ],
  [
    "a wrong signature at Bitbucket",
    { path: "/bitbucket", headers: [...PING, "X-Hub-Signature", `sha256=${macOf("x")}`], body: "{}" },
  ],
  ["another event of Bitbucket", { path: "/bitbucket", headers: ["X-Event-Key", "repo:push"], body: "{}" }],
  ["two events of Bitbucket", { path: "/bitbucket", headers: [...PING, ...PING], body: "{}" }],
  [
    "a wrong signature at WooCommerce",
    { path: "/woocommerce", headers: [...FORM, "X-WC-Webhook-Signature", macOf("x", "base64")], body: "a=1" },
  ],
  ["a wrong token in the query", { path: "/by-query?token=x", headers: ["X-Ping", "1"], body: "a" }],
];

test.each(refused)(
  "a set-up request without proof is refused with 401 if it has %s",
  async (_what, asked) => {
    const answer = await send(gateway.address, asked);
    expect(answer.json()).toMatchObject({ status: 401, code: "webhook.credential_rejected" });
    expect(await webhooks.waiting()).toEqual([]);
  },
);

const COMMAND = "ssl_check=1&command=%2Fdeploy";
test.each<[string, Sent]>([
  ["Slack's command with a field like that of its set-up request", slack(COMMAND)],
  [
    "Bitbucket's signed body with any event header",
    { path: "/bitbucket", headers: [...PING, "X-Hub-Signature", `sha256=${macOf("{}")}`], body: "{}" },
  ],
  [
    "WooCommerce's signed form",
    {
      path: "/woocommerce",
      headers: [...FORM, "X-WC-Webhook-Signature", macOf("a=1", "base64")],
      body: "a=1",
    },
  ],
])("%s is a delivery", async (_what, asked) => {
  expect((await send(gateway.address, asked)).status).toBeLessThan(300);
  await webhooks.onlyCall();
});

test("a set-up request with a valid signature is answered, and nothing is queued", async () => {
  const answer = await send(gateway.address, slack("ssl_check=1"));
  expect([answer.status, answer.text]).toEqual([200, ""]);
  expect(await webhooks.waiting()).toEqual([]);
});

test("Bitbucket's set-up request is answered without its body", async () => {
  const asked = { path: "/bitbucket", headers: PING, body: Buffer.alloc(2 * 1024 * 1024) };
  expect((await send(gateway.address, asked)).status).toBe(200);
});

test("set-up requests without proof are counted, and not logged one by one", async () => {
  const { address, log } = await webhooks.start({ endpoints, clock: () => NOW });
  const asked: Sent[] = [unsigned("ssl_check=1"), { method: "GET", path: "/dropbox?challenge=a" }];
  for (const each of asked)
    for (let i = 0; i < 20; i += 1) expect((await send(address, each)).status).toBe(200);
  const logged = () => log.events.filter(({ event }) => event === "webhook.handshake_answered");
  await eventually("all requests are logged", () => {
    const times = logged().map(({ fields }) => Number(fields["times"]));
    return times.reduce((sum, each) => sum + each, 0) === 40 ? true : undefined;
  });
  expect(logged().length).toBeLessThan(20);
});

test("the metrics count every set-up request, even if a log line covers several", async () => {
  const metrics = createMetrics();
  const log = metered(silentLogger, createMeters(metrics));
  log.info("webhook.handshake_answered", { path: "/a", status: 200, ms: 1 });
  log.info("webhook.handshake_answered", { path: "/a", status: 200, times: 4 });
  expect(await metrics.text()).toContain('postern_webhooks_total{path="/a",code="handshake"} 5\n');
});
