import { generateKeyPairSync } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { createRejectedList } from "../../../shared/telemetry/rejected/list.ts";
import { type TestWebhooks, useWebhooks } from "../../fixtures/webhooks.ts";
import { send, sendRaw } from "../../support/http.ts";
import { SECRET } from "./receive/credentials.ts";

const { publicKey } = generateKeyPairSync("ed25519");
const PUBLIC_KEY = Buffer.from(String(publicKey.export({ format: "jwk" }).x), "base64url").toString("hex");

const endpoints = [
  { path: "/github", preset: "github", job_id: 1, secret: SECRET },
  { path: "/token", job_id: 1, secret: SECRET, auth: "token", token_query: "token" },
  {
    path: "/own",
    job_id: 1,
    secret: SECRET,
    auth: "signature",
    signature: {
      header: "X-Own-Signature",
      algorithm: "hmac-sha256",
      signed: "{timestamp}.{body}",
      timestamp: { header: "X-Own-Time", unit: "s", past_secs: 300, future_secs: 300 },
    },
  },
  { path: "/bearer", auth: "bearer", job_id: 1, secret: SECRET, keep_rejected_bodies: true },
  { path: "/bearer-keeps-none", auth: "bearer", job_id: 1, secret: SECRET },
  { path: "/stripe", preset: "stripe", job_id: 1, secret: SECRET },
  { path: "/basic", job_id: 1, secret: SECRET, auth: "basic", username: "shop" },
  { path: "/key", job_id: 1, secret: SECRET, auth: "api-key" },
  { path: "/field", job_id: 1, secret: SECRET, auth: "token", token_field: "/token" },
  { path: "/hmac", job_id: 1, secret: SECRET, auth: "hmac-sha256" },
  { path: "/gitlab", job_id: 1, secret: SECRET, preset: "gitlab" },
  {
    ...{ path: "/message", job_id: 1, secret: SECRET, auth: "http-signature" },
    ...{ public_url: "https://a.example/message", http_signature: { algorithm: "hmac-sha256" } },
  },
  { path: "/discord", job_id: 1, secret: PUBLIC_KEY, preset: "discord-interactions" },
  { path: "/keeps", preset: "github", job_id: 1, secret: SECRET, keep_rejected_bodies: true },
];

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints });
});

async function newest() {
  const list = createRejectedList(webhooks.redis.partition);
  await eventually("it is recorded", async () => (await list.matching({}, 1)).newest.length === 1);
  return (await list.matching({}, 1)).newest[0];
}

test("a refused signature is recorded with its sender and the expected and received signature headers, but without any credential", async () => {
  const headers = { "X-Hub-Signature": `sha1=${"ab".repeat(20)}`, Authorization: "Bearer hidden-token" };
  const answer = await send(gateway.address, {
    path: "/github?key=hidden-key",
    headers,
    body: "hidden body",
  });
  expect(answer.json()["detail"]).toBe(
    "no complete credential: this endpoint reads it from x-hub-signature-256; the request has authorization, x-hub-signature",
  );
  const entry = await newest();
  expect(entry).toMatchObject({
    endpoint: "/github",
    address: "127.0.0.1",
    code: "webhook.credential_rejected",
    reason: "missing: header x-hub-signature-256",
    came: ["authorization", "x-hub-signature"],
    wanted: ["x-hub-signature-256"],
    query: ["key"],
    bytes: 11,
  });
  expect(JSON.stringify([entry, gateway.log.events])).not.toMatch(/hidden|abab/);
});

test("for an endpoint's own signature scheme, a refusal names the signature header that arrived and the time header that is missing", async () => {
  const answer = await send(gateway.address, {
    path: "/own",
    headers: { "X-Own-Signature": "00" },
    body: "b",
  });
  expect(answer.json()["detail"]).toBe(
    "no complete credential: this endpoint reads it from x-own-signature, x-own-time; the request has x-own-signature",
  );
  expect(await newest()).toMatchObject({ endpoint: "/own", came: ["x-own-signature"] });
});

test("if the signature may be in one of several headers, the refusal says that one suffices", async () => {
  const headers = { "X-Signature-256": "ab".repeat(32) };
  const answer = await send(gateway.address, { path: "/hmac", headers, body: "b" });
  expect(answer.json()["detail"]).toBe("the credential in x-signature-256 is not valid");
});

test("a refusal of a token names the place where the token was expected", async () => {
  const answer = await send(gateway.address, { path: "/token?other=1", body: "b" });
  expect(answer.json()["detail"]).toBe(
    "no complete credential: this endpoint reads it from query parameter token; the request has none",
  );
});

test.each([
  ["/bearer", { Authorization: "Bearer wrong" }, "bearer", "mismatch"],
  ["/basic", { Authorization: `Basic ${Buffer.from("shop:wrong").toString("base64")}` }, "basic", "mismatch"],
  ["/basic", {}, "basic", "missing: header authorization"],
  ["/key", { "X-API-Key": "wrong" }, "api-key", "mismatch"],
  ["/token?token=wrong", {}, "token", "mismatch"],
  ["/field", {}, "token", "mismatch"],
  ["/gitlab", { "X-Gitlab-Token": "wrong" }, "token", "mismatch"],
  ["/hmac", { "X-Signature-256": "ab".repeat(32) }, "digest", "mismatch"],
  ["/github", {}, "digest", "missing: header x-hub-signature-256"],
  ["/message", {}, "digest", "missing: header content-digest"],
  ["/discord", {}, "key-pair", "missing: header x-signature-ed25519"],
])(
  "a refusal at %s with %j is recorded with the credential kind %s: %s",
  async (path, headers, credential, reason) => {
    const answer = await send(gateway.address, { path, headers, body: '{"token":"wrong"}' });
    expect(answer.status).toBe(401);
    expect(await newest()).toMatchObject({ credential, reason: expect.stringContaining(reason) });
  },
);

test.each([
  ["/github", { "X-GitHub-Delivery": "72d3162e" }, "72d3162e"],
  ["/github", { "X-GitHub-Delivery": "d".repeat(4000) }, `${"d".repeat(128)}...`],
  ["/github", {}, undefined],
  // Stripe's delivery id is in the body, which is not verified.
  ["/stripe", {}, undefined],
])(
  "a refusal at %s with %j is recorded with the delivery id in the headers",
  async (path, headers, delivery) => {
    await send(gateway.address, { path, headers, body: '{"id":"evt_1"}' });
    expect((await newest())?.delivery).toBe(delivery);
  },
);

test("the body of a refused webhook is kept only if the endpoint is configured so", async () => {
  const headers = { "X-Hub-Signature-256": `sha256=${"0".repeat(64)}` };
  await send(gateway.address, { path: "/keeps", headers, body: "what was sent" });
  expect(await newest()).toMatchObject({
    reason: "mismatch",
    body: Buffer.from("what was sent").toString("base64"),
  });
});

const WRONG_TOKEN = "POST /bearer HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer wrong\r\n";
const isAnswered = (text: string) => text.includes("\r\n\r\n");

test.each([
  ["a wrong bearer token", WRONG_TOKEN, 401],
  ["another method", WRONG_TOKEN.replace("POST", "DELETE"), 405],
  ["a missing signature", "POST /keeps HTTP/1.1\r\nHost: a\r\n", 401],
])("the body that has arrived with %s is kept up to 4 KiB", async (_what, head, status) => {
  const body = `{"a":"${"x".repeat(9000)}"}`;
  const answer = await sendRaw(gateway.address, `${head}Content-Length: ${body.length}\r\n\r\n${body}`, {
    enough: isAnswered,
  });
  expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(await newest()).toMatchObject({
    bytes: body.length,
    body: Buffer.from(body.slice(0, 4096)).toString("base64"),
  });
});

test("a wrong bearer token is answered without waiting for the body, and none of the body is kept", async () => {
  const answer = await sendRaw(gateway.address, `${WRONG_TOKEN}Content-Length: 10\r\n\r\n`, {
    enough: isAnswered,
  });
  expect(answer).toMatch(/^HTTP\/1.1 401 /);
  expect(await newest()).toMatchObject({ endpoint: "/bearer", bytes: 10 });
  expect(await newest()).not.toHaveProperty("body");
});

test("after a refusal whose body was kept, the connection's next request is read from the end of that body", async () => {
  const refused = `${WRONG_TOKEN}Content-Length: 6\r\n\r\n${"x".repeat(6)}`;
  const right = refused.replace("wrong", SECRET);
  const answer = await sendRaw(gateway.address, refused + right, {
    enough: (text) => text.includes("call_id"),
  });
  expect(answer.match(/HTTP\/1.1 (\d+)/g)).toEqual(["HTTP/1.1 401", "HTTP/1.1 202"]);
});

test("if a body exceeds the limit, its first bytes are kept", async () => {
  const headers = { "X-Hub-Signature-256": `sha256=${"0".repeat(64)}`, "Transfer-Encoding": "chunked" };
  const answer = await send(gateway.address, { path: "/keeps", headers, body: Buffer.alloc(2_000_000, "x") });
  expect(answer.status).toBe(413);
  expect(await newest()).toMatchObject({
    code: "request.too_large",
    body: Buffer.alloc(4096, "x").toString("base64"),
  });
});

test("an endpoint that keeps no refused bodies does not keep bytes that have arrived", async () => {
  const head = WRONG_TOKEN.replace("/bearer", "/bearer-keeps-none");
  await sendRaw(gateway.address, `${head}Content-Length: 4\r\n\r\nbody`, { enough: isAnswered });
  const entry = await newest();
  expect(entry?.endpoint).toBe("/bearer-keeps-none");
  expect(entry).not.toHaveProperty("body");
});
