import { describe, expect, test } from "vitest";
import { createEnqueue } from "../../../../services/webhooks-gateway/enqueue.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { aCall } from "../../../fixtures/producer.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { multiplyFailed } from "../../../support/multiply-failed.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

type Queues = { origin: string; waiting: number; failed: number; oldest_age_ms: number | null };

describe("200", () => {
  test("the queues of a job count the same calls as the filter of failed calls, with callbacks about them, and no other job's", async () => {
    const [id = ""] = await calls.fail([{ jobId: 1 }, { jobId: 1 }, { jobId: 11 }]);
    const of = { id, queue: (await calls.find(id)).queue };
    const queues = ["callback/7/1/receiver.example.com", "callback/7/11/receiver.example.com"];
    await multiplyFailed(redis.partition, { of, copies: 6, queues });
    await createEnqueue(redis.partition)(aCall({ job_id: 11 }));
    const { get } = await fixture.start();
    const read = async (query: string) => {
      const answer = await get(`/api/v1/queues${query}`, { as: "viewer" });
      const { queues } = answer.json<{ queues: Queues[] }>();
      return Object.fromEntries(queues.map(({ origin, waiting, failed }) => [origin, [waiting, failed]]));
    };
    expect(await read("?job=7/1")).toEqual({ webhook: [0, 2], x402: [0, 0], callback: [0, 3] });
    expect(await read("?job=7/11")).toEqual({ webhook: [1, 1], x402: [0, 0], callback: [0, 3] });
    expect(await read("?job=8/1")).toEqual({ webhook: [0, 0], x402: [0, 0], callback: [0, 0] });
    expect(await read("")).toEqual({ webhook: [1, 3], x402: [0, 0], callback: [0, 6] });
    const counted = await get("/api/v1/failed/count?service_id=7&job_id=1");
    expect(counted.json()).toEqual({ matched: 5, total: 9 });
  });
});

describe("400", () => {
  test.each(["?job=7", "?job=07/1", "?job=callback/receiver.example.com", "?origin=webhook"])(
    "queues of %s are refused",
    async (query) => {
      const { get } = await fixture.start();
      expect(refusalOf(await get(`/api/v1/queues${query}`))).toEqual([400, "request.malformed"]);
    },
  );
});
