import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { keys, useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("what lies in the queue and is no call of this version has no body: 500 with its code", async () => {
  const [id = ""] = await calls.fail([{}]);
  await redis.client.hset(keys.inQueue("webhook/7/1", id), "data", "no JSON");
  const { get } = await fixture.start();
  expect(refusalOf(await get(`/api/v1/failed/${id}/body`))).toEqual([500, "call.corrupt"]);
});
