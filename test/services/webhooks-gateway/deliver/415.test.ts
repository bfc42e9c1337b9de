import { gzipSync } from "node:zlib";
import { beforeAll, expect, test } from "vitest";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";

const endpoints = [
  { path: "/any", job_id: 1, auth: "none" },
  { path: "/decodes", job_id: 1, auth: "none", encoded_bodies: "decode" },
];

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints });
});

const post = (path: string, encoding: string, body: Buffer) =>
  send(gateway.address, { path, headers: { "Content-Encoding": encoding }, body });

test("an encoded body is refused with 415 unless the endpoint decodes bodies", async () => {
  const answer = await post("/any", "gzip", gzipSync("text"));
  expect(answer.status).toBe(415);
  expect(answer.json()).toMatchObject({ code: "request.encoding_unsupported" });
  expect(await webhooks.waiting()).toEqual([]);
});

test.each([
  ["in an encoding that nobody decodes", "zstd"],
  ["in two encodings", "gzip, br"],
])("a body %s is refused with 415 where bodies are decoded", async (_what, encoding) => {
  expect((await post("/decodes", encoding, Buffer.from("plain"))).status).toBe(415);
});
