import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { keys, useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("a failed call is shown with its metadata, its record and its failed attempts, and without its body", async () => {
  const [id = ""] = await calls.fail([{ path: "/a" }], "runner.failed");
  const { get } = await fixture.start();
  const shown = await get(`/api/v1/failed/${id}`, { as: "viewer" });
  expect([shown.status, shown.json()]).toMatchObject([
    200,
    { id, path: "/a", record: "FAILED", metadata: { "X-WEBHOOK-PATH": "/a" }, code: "runner.failed" },
  ]);
  expect(shown.json()["failed_attempts"]).toHaveLength(calls.attempts);
  expect(shown.text).not.toContain(Buffer.from(`body of ${id}`).toString("base64"));
});

test("of a call that this release cannot read, what lies in the queue is shown", async () => {
  const [id = ""] = await calls.fail([{}]);
  await redis.client.hset(keys.inQueue("webhook/7/1", id), "data", '{"v":99,"body":"c2VjcmV0"}');
  const { get } = await fixture.start();
  const shown = (await get(`/api/v1/failed/${id}`)).json();
  expect(shown).toMatchObject({ id, stored: { v: 99, body: "" } });
  expect(shown["metadata"]).toBeUndefined();
});
