import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("failed calls are counted by origin, job and code, as a filter chooses them", async () => {
  await calls.fail([{ jobId: 1 }, { jobId: 1 }, { origin: "x402", jobId: 2 }]);
  await calls.fail([{ jobId: 1 }], "runner.failed");
  const { get } = await fixture.start();
  const group = (origin: string, job_id: number, code: string, count: number) => ({
    ...{ origin, service_id: 7, job_id, code, count },
  });
  const all = (await get("/api/v1/failed/groups")).json<{ groups: unknown[] }>();
  expect(all.groups).toHaveLength(3);
  expect(all.groups).toEqual(
    expect.arrayContaining([
      group("webhook", 1, "runner.refused", 2),
      group("webhook", 1, "runner.failed", 1),
      group("x402", 2, "runner.refused", 1),
    ]),
  );
  expect((await get("/api/v1/failed/groups?origin=x402")).json()).toEqual({
    groups: [group("x402", 2, "runner.refused", 1)],
  });
});
