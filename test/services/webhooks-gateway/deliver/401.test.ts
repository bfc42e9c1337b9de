import { gzipSync } from "node:zlib";
import { beforeAll, expect, test } from "vitest";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send, sendRaw } from "../../../support/http.ts";
import { BODY, ENDPOINTS, SECRET, SIGNED_OVER, sign, utf8 } from "./credentials.ts";

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints: [...ENDPOINTS, ...SIGNED_OVER] });
});

const good = sign(BODY);
const refused: [string, string, string[], string][] = [
  ["no Authorization header", "/bearer", [], "missing"],
  ["another scheme than Bearer", "/bearer", ["Authorization", utf8(`Basic ${SECRET}`)], "malformed"],
  ["an empty bearer token", "/bearer", ["Authorization", "Bearer "], "malformed"],
  ["a bearer token that differs", "/bearer", ["Authorization", "Bearer nope"], "mismatch"],
  [
    "the beginning of a bearer token",
    "/bearer",
    ["Authorization", utf8(`Bearer ${SECRET.slice(0, -1)}`)],
    "mismatch",
  ],
  [
    "two Authorization headers",
    "/bearer",
    ["Authorization", utf8(`Bearer ${SECRET}`), "Authorization", "Bearer x"],
    "repeated",
  ],
  ["no API key", "/key", [], "missing"],
  ["an API key in another case", "/key", ["X-API-Key", utf8(SECRET.toUpperCase())], "mismatch"],
  ["two API keys", "/key", ["X-API-Key", utf8(SECRET), "x-api-key", utf8(SECRET)], "repeated"],
  ["an API key in another header", "/own-key", ["X-API-Key", utf8(SECRET)], "missing"],
  ["no signature", "/hmac", [], "missing"],
  ["a signature of another body", "/hmac", ["X-Signature-256", sign("other")], "mismatch"],
  ["rubbish behind a good signature", "/hmac", ["X-Signature-256", `${good}zz`], "malformed"],
  ["a list of signatures", "/hmac", ["X-Signature-256", `${good}, sha256=${"0".repeat(64)}`], "malformed"],
  ["rubbish before a signature's prefix", "/hmac", ["X-Signature-256", `x sha256=${good}`], "malformed"],
  ["a signature with another algorithm's prefix", "/hmac", ["X-Signature-256", `sha1=${good}`], "malformed"],
  ["a signature's prefix in upper case", "/hmac", ["X-Signature-256", `SHA256=${good}`], "malformed"],
  ["a signature of 63 digits", "/hmac", ["X-Signature-256", good.slice(1)], "malformed"],
  ["a signature twice", "/hmac", ["X-Signature-256", good, "X-Signature-256", good], "repeated"],
  [
    "a good signature behind a bad one",
    "/hmac",
    ["X-Hub-Signature-256", good, "X-Signature-256", "00"],
    "malformed",
  ],
];

test.each(refused)(
  "a webhook with %s is refused with a 401 that does not say why",
  async (_what, path, headers, reason) => {
    const answer = await send(gateway.address, { path, headers, body: BODY });
    expect(answer.status).toBe(401);
    expect(answer.headers["www-authenticate"]).toMatch(/realm="postern"/);
    expect(answer.json()).toMatchObject({
      detail: expect.stringMatching(/^unauthorized; wanted: [a-z0-9, -]+; came: [a-z0-9, -]+$/),
      code: "webhook.credential_rejected",
    });
    expect(answer.text).not.toContain(reason);
    expect(gateway.log.events.at(-1)).toMatchObject({
      event: "webhook.refused",
      fields: { reason: expect.stringMatching(new RegExp(`^${reason}(?:: |$)`)) },
    });
    expect(await webhooks.waiting()).toEqual([]);
  },
);

test("a webhook whose body is not what was signed is refused with 401, even if it means the same", async () => {
  const headers = ["X-Signature-256", sign("{}")];
  expect((await send(gateway.address, { path: "/hmac", headers, body: "{ }" })).status).toBe(401);
});

test("a webhook with a bad credential is refused with 401 before its large body is looked at", async () => {
  const head = "POST /key HTTP/1.1\r\nHost: x\r\nX-API-Key: no\r\nContent-Length: 900000000\r\n\r\n";
  const raw = await sendRaw(gateway.address, head);
  expect(raw).toMatch(/^HTTP\/1\.1 401/);
  expect(raw).toMatch(/Connection: close/i);
});

test.each([
  ["received", Buffer.from(BODY)],
  ["decoded", gzipSync(BODY)],
])(
  "a coded webhook is refused with 401 whose signature does not cover its body as %s, if it has to",
  async (how, over) => {
    const headers = { "Content-Encoding": "gzip", "X-Signature-256": sign(over) };
    const answer = await send(gateway.address, { path: `/signed-${how}`, headers, body: gzipSync(BODY) });
    expect(answer.status).toBe(401);
  },
);
