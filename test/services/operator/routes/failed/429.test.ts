import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";
import { multiplyFailed } from "../../../../support/multiply-failed.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("so many long readings are under way at once, and no more: 429, with when to come back", async () => {
  const [id = ""] = await calls.fail([{}]);
  await multiplyFailed(redis.partition, {
    ...{ of: { id, queue: "webhook/7/1" }, copies: 5000, queues: ["webhook/7/1"], everyMs: -1 },
  });
  const { get } = await fixture.start();
  const answers = await Promise.all(Array.from({ length: 20 }, () => get("/api/v1/failed?endpoint=/none")));
  const statuses = answers.map(({ status }) => status);
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(8);
  const refused = answers.find(({ status }) => status === 429);
  expect(refused && refusalOf(refused)).toEqual([429, "request.rate_limited"]);
  expect(Number(refused?.headers["retry-after"])).toBeGreaterThan(0);
});
