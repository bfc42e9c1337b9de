import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("a call that has not failed cannot be discarded: 409", async () => {
  const id = await calls.add();
  const { post } = await fixture.start();
  const answer = await post(`/api/v1/failed/${id}/discard`, { reason: "x" });
  expect(refusalOf(answer)).toEqual([409, "call.not_failed"]);
});
