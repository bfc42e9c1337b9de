import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("a call that is not among the failed ones is 409, and the answer says where it is", async () => {
  const id = await calls.add();
  const { get } = await fixture.start();
  const shown = await get(`/api/v1/failed/${id}`);
  expect(refusalOf(shown)).toEqual([409, "call.not_failed"]);
  expect(shown.json()["detail"]).toBe(`${id} is not among the failed calls: it is waiting in the queue`);
});
