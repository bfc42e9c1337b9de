import { createHmac } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { send } from "../support/http.ts";

const SECRET = "un secret très long à deviner";
const OLD_SECRET = "the one before the rotation";
const BODY = '{"alert": "disk full", "host": "db-1"}';

const endpoints = [
  { path: "/none", job_id: 1, auth: "none" },
  { path: "/bearer", job_id: 2, auth: "bearer", secret: [SECRET, OLD_SECRET] },
  { path: "/key", job_id: 3, auth: "api-key", secret: SECRET },
  { path: "/own-key", job_id: 3, auth: "api-key", secret: SECRET, api_key_header: "X-Own-Key" },
  { path: "/hmac", job_id: 4, auth: "hmac-sha256", secret: [SECRET, OLD_SECRET] },
];

let redis: PrivateRedis;
let gateway: TestGateway;

beforeAll(async () => {
  redis = await startRedis({ env: process.env });
  gateway = await startGateway({ redisUrl: redis.url, webhooks: { endpoints } });
});
afterAll(async () => {
  await gateway.close();
  await redis.stop();
});
beforeEach(async () => {
  await gateway.queue.obliterate({ force: true });
  gateway.log.events.length = 0;
});

const sign = (body: string | Buffer, secret = SECRET) =>
  createHmac("sha256", secret).update(body).digest("hex");
/** Node sends header values as latin1; UTF-8 bytes go out as they are this way. */
const utf8 = (text: string) => Buffer.from(text, "utf8").toString("latin1");
const post = (path: string, headers: readonly string[], body: string | Buffer = BODY) =>
  send(gateway.address, { path, headers, body });

const good = sign(BODY);
const accepted: [string, string, string[]][] = [
  ["no credential where none is asked", "/none", []],
  ["a bearer token", "/bearer", ["Authorization", utf8(`Bearer ${SECRET}`)]],
  ["the bearer scheme in any case", "/bearer", ["Authorization", utf8(`bEARER ${SECRET}`)]],
  ["the older of two active bearer secrets", "/bearer", ["Authorization", `Bearer ${OLD_SECRET}`]],
  ["an API key", "/key", ["X-API-Key", utf8(SECRET)]],
  ["an API key in the endpoint's own header", "/own-key", ["X-Own-Key", utf8(SECRET)]],
  ["a bare hex signature", "/hmac", ["X-Signature-256", good]],
  ["a signature with its prefix", "/hmac", ["X-Hub-Signature-256", `sha256=${good}`]],
  ["a signature in upper case", "/hmac", ["X-Webhook-Signature", good.toUpperCase()]],
  ["the older of two active HMAC secrets", "/hmac", ["X-Signature-256", sign(BODY, OLD_SECRET)]],
  [
    "the first signature header, whatever the later ones say",
    "/hmac",
    ["X-Webhook-Signature", "nonsense", "X-Hub-Signature-256", sign("other"), "X-Signature-256", good],
  ],
];

describe("202: the credential is valid", () => {
  test.each(accepted)("%s", async (_what, path, headers) => {
    const answer = await post(path, headers);
    expect(answer.status).toBe(202);
    const [call] = await gateway.waiting();
    expect(answer.json()).toEqual({ status: "accepted", job_id: call?.job_id, call_id: call?.id });
  });
});

const refused: [string, string, string[], string][] = [
  ["no Authorization", "/bearer", [], "missing"],
  ["another scheme", "/bearer", ["Authorization", utf8(`Basic ${SECRET}`)], "malformed"],
  ["an empty token", "/bearer", ["Authorization", "Bearer "], "malformed"],
  ["a token that differs", "/bearer", ["Authorization", "Bearer nope"], "mismatch"],
  ["a token's prefix", "/bearer", ["Authorization", utf8(`Bearer ${SECRET.slice(0, -1)}`)], "mismatch"],
  [
    "two Authorizations",
    "/bearer",
    ["Authorization", utf8(`Bearer ${SECRET}`), "Authorization", "Bearer x"],
    "repeated",
  ],
  ["no API key", "/key", [], "missing"],
  ["an API key in another case", "/key", ["X-API-Key", utf8(SECRET.toUpperCase())], "mismatch"],
  ["two API keys", "/key", ["X-API-Key", utf8(SECRET), "x-api-key", utf8(SECRET)], "repeated"],
  ["the default header where another is configured", "/own-key", ["X-API-Key", utf8(SECRET)], "missing"],
  ["no signature", "/hmac", [], "missing"],
  ["a signature of another body", "/hmac", ["X-Signature-256", sign("other")], "mismatch"],
  ["good digits and rubbish behind", "/hmac", ["X-Signature-256", `${good}zz`], "malformed"],
  ["a list of signatures", "/hmac", ["X-Signature-256", `${good}, sha256=${"0".repeat(64)}`], "malformed"],
  ["rubbish before the prefix", "/hmac", ["X-Signature-256", `x sha256=${good}`], "malformed"],
  ["the prefix of another algorithm", "/hmac", ["X-Signature-256", `sha1=${good}`], "malformed"],
  ["the prefix in upper case", "/hmac", ["X-Signature-256", `SHA256=${good}`], "malformed"],
  ["63 digits", "/hmac", ["X-Signature-256", good.slice(1)], "malformed"],
  ["a signature twice", "/hmac", ["X-Signature-256", good, "X-Signature-256", good], "repeated"],
  [
    "a bad first header beside a good second",
    "/hmac",
    ["X-Hub-Signature-256", good, "X-Signature-256", "00"],
    "malformed",
  ],
];

describe("401: the credential is not valid", () => {
  test.each(refused)("%s", async (_what, path, headers, reason) => {
    const answer = await post(path, headers);
    expect(answer.status).toBe(401);
    expect(answer.headers["www-authenticate"]).toMatch(/realm="postern"/);
    expect(answer.json()).toMatchObject({
      error: "unauthorized",
      detail: "unauthorized",
      code: "webhook.credential_rejected",
    });
    expect(answer.text).not.toContain(reason);
    expect(gateway.log.events.at(-1)).toMatchObject({ event: "webhook.refused", fields: { reason } });
    expect(await gateway.waiting()).toEqual([]);
  });
});

test("the signature covers the bytes as received, not what they mean", async () => {
  const bytes = Buffer.from([0x7b, 0x7d, 0xff, 0x00, 0x0a]);
  expect((await post("/hmac", ["X-Signature-256", sign(bytes)], bytes)).status).toBe(202);
  expect((await post("/hmac", ["X-Signature-256", sign("{}")], "{ }")).status).toBe(401);
});

test("no credential reaches the queue or the log", async () => {
  await post("/bearer", ["Authorization", utf8(`Bearer ${SECRET}`), "Cookie", "session=canary"]);
  await post("/hmac", ["X-Signature-256", good]);
  await post("/key", ["X-API-Key", "wrong-canary-key"]);
  await post("/hmac", ["X-Signature-256", sign("canary")]);
  const stored = JSON.stringify(await gateway.waiting());
  for (const trace of [SECRET, utf8(SECRET), "canary", good, sign("canary"), "uthorization"]) {
    expect(stored).not.toContain(trace);
    expect(gateway.log.text()).not.toContain(trace);
  }
});

test("the call carries the metadata of its endpoint and nothing else of the request", async () => {
  await send(gateway.address, {
    path: "/none?secret=in-the-query",
    headers: {
      "Content-Type": "text/plain; charset=x",
      "X-PLATFORM-SERVICE-ID": "999",
      traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`,
    },
    body: "hi",
  });
  const [call] = await gateway.waiting();
  expect(call).toEqual({
    v: 1,
    id: expect.stringMatching(/^c_[0-9a-f]{32}$/),
    origin: "webhook",
    job_id: 1,
    metadata: {
      "X-PLATFORM-SERVICE-ID": "7",
      "X-PLATFORM-CALL-ID": call?.id,
      "X-WEBHOOK-PATH": "/none",
      "X-WEBHOOK-ORIGIN": "webhook",
    },
    content_type: "text/plain; charset=x",
    body: "aGk=",
    sha256: "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4",
    bytes: 2,
    accepted_at: expect.any(Number),
    traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`,
  });
});
