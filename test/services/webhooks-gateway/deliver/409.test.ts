import { beforeAll, expect, test } from "vitest";
import { createCallRecords, createFailedRecords } from "../../../../shared/queue/call-record.ts";
import { partitionOf } from "../../../../shared/redis/partition.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { markInjected } from "../../../support/mark-injected.ts";

const SECRET = "a secret of the deduplicated";
const endpoints = [
  { path: "/key", job_id: 1, auth: "api-key", secret: SECRET, idempotency_header: "X-Id" },
  { path: "/bearer", job_id: 1, auth: "bearer", secret: SECRET, idempotency_header: "X-Id" },
];

const webhooks = useWebhooks();
let first: TestWebhooks;
let second: TestWebhooks;

beforeAll(async () => {
  first = await webhooks.start({ endpoints });
  second = await webhooks.start({ endpoints });
});

const post = ({ address }: TestWebhooks, path: string, body: string) =>
  send(address, {
    path,
    headers: { "X-API-Key": SECRET, Authorization: `Bearer ${SECRET}`, "X-Id": "d-1" },
    body,
  });

test.each(["QUEUED", "INJECTED", "FAILED", "DISCARDED"])(
  "a delivery id that comes again with another body is refused with 409 when its call is %s",
  async (state) => {
    const partition = partitionOf(webhooks.redis.client);
    const records = createCallRecords(partition);
    const id = String((await post(first, "/key", "one")).json()["call_id"]);
    const of = { id, queue: "webhook/7/1" };
    if (state === "INJECTED") await markInjected(partition, of);
    if (state === "FAILED") await records.failed(of, Date.now());
    if (state === "DISCARDED") await createFailedRecords(partition).endDiscard(of, Date.now());
    expect(await records.state(id)).toBe(state);
    const answer = await post(second, "/key", "two");
    expect(answer.status).toBe(409);
    expect(answer.json()).toMatchObject({ code: "call.conflict" });
    expect(await webhooks.waiting()).toHaveLength(1);
  },
);

test("a delivery id that comes again with another body under the same bearer token is refused with 409", async () => {
  expect((await post(first, "/bearer", "one")).status).toBe(202);
  expect((await post(first, "/bearer", "two")).json()).toMatchObject({ status: 409, code: "call.conflict" });
  expect(await webhooks.waiting()).toHaveLength(1);
});
