import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("a call is not discarded without a reason: 400", async () => {
  const [id = ""] = await calls.fail([{}]);
  const { post } = await fixture.start();
  expect(refusalOf(await post(`/api/v1/failed/${id}/discard`, {}))).toEqual([400, "request.malformed"]);
  expect(await calls.calls.count({})).toBe(1);
});
