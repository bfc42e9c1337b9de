import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("a call is not forgotten without a reason: 400", async () => {
  const [id = ""] = await calls.fail([{}]);
  const { post } = await fixture.start();
  for (const body of [{}, { reason: " " }])
    expect(refusalOf(await post(`/api/v1/calls/${id}/forget`, body))).toEqual([400, "request.malformed"]);
  expect(await calls.calls.find(id)).toBeDefined();
});
