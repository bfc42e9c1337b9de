import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("a call without a result is 404, which says why there is none, and so is no call", async () => {
  const id = await calls.add();
  const { get } = await fixture.start();
  const none = await get(`/api/v1/calls/${id}/result`);
  expect(refusalOf(none)).toEqual([404, "call.no_result"]);
  expect(none.json()["detail"]).toMatch(/^c_\w+: it has no result with a body: /);
  const unknown = await get(`/api/v1/calls/c_${"0".repeat(32)}/result`);
  expect(refusalOf(unknown)).toEqual([404, "call.unknown"]);
});
