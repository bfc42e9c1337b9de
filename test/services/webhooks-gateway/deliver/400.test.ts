import { beforeAll, expect, test } from "vitest";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";

const endpoints = [
  { path: "/deliveries", job_id: 1, auth: "none", idempotency_header: "X-GitHub-Delivery" },
  { path: "/decodes", job_id: 1, auth: "none", encoded_bodies: "decode" },
];

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints });
});

const deliver = (...ids: string[]) =>
  send(gateway.address, {
    path: "/deliveries",
    headers: ids.flatMap((id) => ["X-GitHub-Delivery", id]),
    body: "x",
  });

test.each([
  ["is empty", [""]],
  ["is repeated", ["a", "b"]],
  ["is repeated with the same value", ["a", "a"]],
  ["is longer than 256 bytes", ["x".repeat(257)]],
])("a webhook whose delivery id %s is refused with 400", async (_what, ids) => {
  const answer = await deliver(...ids);
  expect(answer.status).toBe(400);
  expect(answer.json()).toMatchObject({ code: "webhook.delivery_id_invalid" });
  expect(await webhooks.waiting()).toEqual([]);
});

test("a delivery id of 256 bytes is not refused", async () => {
  expect((await deliver("x".repeat(256))).status).toBe(202);
});

test("a webhook whose body is not in the encoding that it names is refused with 400", async () => {
  const headers = { "Content-Encoding": "gzip" };
  const answer = await send(gateway.address, { path: "/decodes", headers, body: "plain" });
  expect(answer.json()).toMatchObject({ status: 400, code: "request.encoding_broken" });
  expect(await webhooks.waiting()).toEqual([]);
});
