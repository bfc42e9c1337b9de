import { expect, test } from "vitest";
import { createForget } from "../../../../../shared/calls/forget.ts";
import { silentLogger } from "../../../../../shared/log/logger.ts";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("a call that was forgotten is 410", async () => {
  const [id = ""] = await calls.fail([{}]);
  const { partition } = calls.redis;
  await createForget({ partition, clock: Date.now, log: silentLogger, by: "a test" })(id, "a test");
  const { get } = await fixture.start();
  expect(refusalOf(await get(`/api/v1/failed/${id}`))).toEqual([410, "call.forgotten"]);
});
