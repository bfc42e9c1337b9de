import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { keys, useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("a failed call that is discarded is gone with its body, and the audit says who did it and why", async () => {
  const [id = ""] = await calls.fail([{}]);
  const { post } = await fixture.start();
  expect((await post(`/api/v1/failed/${id}/discard`, { reason: "a test call" })).status).toBe(204);
  expect(await redis.client.exists(keys.inQueue("webhook/7/1", id))).toBe(0);
  expect(await calls.records.state(id)).toBe("DISCARDED");
  expect(await calls.audited()).toMatchObject([
    { action: "discard", call_id: id, by: "otto", selection: "by id", reason: "a test call" },
  ]);
});
