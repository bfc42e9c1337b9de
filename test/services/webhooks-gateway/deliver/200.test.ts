import { beforeAll, expect, test } from "vitest";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { BODY, SECRET, sign } from "./credentials.ts";

const signed = { job_id: 1, auth: "hmac-sha256", secret: SECRET };
const endpoints = [
  { ...signed, path: "/json", answer: { status: 200 } },
  { ...signed, path: "/empty", answer: { status: 200, body: "" } },
  { ...signed, path: "/own", answer: { status: 200, content_type: "text/xml", body: "<Response/>" } },
];

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints });
});

const post = (path: string) =>
  send(gateway.address, { path, headers: ["X-Signature-256", sign(BODY)], body: BODY });

test.each([
  ["/json", /^\{"status":"accepted","job_id":1,"call_id":"c_[0-9a-f]{32}"\}$/, "application/json"],
  ["/empty", /^$/, undefined],
  ["/own", /^<Response\/>$/, "text/xml"],
])(
  "a webhook to %s is answered 200 as its sender wants it, once the call is on disk",
  async (path, body, type) => {
    const answer = await post(path);
    expect([answer.status, answer.headers["content-type"]]).toEqual([200, type]);
    expect(answer.text).toMatch(body);
    await webhooks.onlyCall();
  },
);
