import { beforeAll, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { createRejectedList } from "../../../shared/rejected/list.ts";
import { type TestWebhooks, useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";
import { SECRET } from "./deliver/credentials.ts";

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

test("a refused signature leaves who sent it, which signature headers came and were wanted, and nothing of a credential", async () => {
  const headers = { "X-Hub-Signature": `sha1=${"ab".repeat(20)}`, Authorization: "Bearer hidden-token" };
  const answer = await send(gateway.address, {
    path: "/github?key=hidden-key",
    headers,
    body: "hidden body",
  });
  expect(answer.json()["detail"]).toBe(
    "unauthorized; wanted: x-hub-signature-256; came: authorization, x-hub-signature",
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

test("a refused signature of one's own names the header that came, and the one of the time that did not", async () => {
  const answer = await send(gateway.address, {
    path: "/own",
    headers: { "X-Own-Signature": "00" },
    body: "b",
  });
  expect(answer.json()["detail"]).toBe(
    "unauthorized; wanted: x-own-signature, x-own-time; came: x-own-signature",
  );
  expect(await newest()).toMatchObject({ endpoint: "/own", came: ["x-own-signature"] });
});

test("a refused token names the place in which it was wanted", async () => {
  const answer = await send(gateway.address, { path: "/token?other=1", body: "b" });
  expect(answer.json()["detail"]).toBe("unauthorized; wanted: query parameter token; came: none");
});

test("the body of a refused webhook is kept only where the endpoint says so", async () => {
  const headers = { "X-Hub-Signature-256": `sha256=${"0".repeat(64)}` };
  await send(gateway.address, { path: "/keeps", headers, body: "what was sent" });
  expect(await newest()).toMatchObject({
    reason: "mismatch",
    body: Buffer.from("what was sent").toString("base64"),
  });
});
