import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("the body of a call that is not among the failed ones is 409", async () => {
  const id = await calls.add();
  const { get } = await fixture.start();
  expect(refusalOf(await get(`/api/v1/failed/${id}/body`))).toEqual([409, "call.not_failed"]);
});
