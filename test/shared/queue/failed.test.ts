import { beforeAll, expect, test } from "vitest";
import type { CallFilter } from "../../../shared/queue/failed.ts";
import { type NewCall, useFailedCalls } from "../../fixtures/failed-calls.ts";
import { keys } from "../../fixtures/redis.ts";

const fixture = useFailedCalls({ fresh: "file" });
let ids: string[];

const FAILED: NewCall[] = [
  { path: "/hooks/a", jobId: 1 },
  { path: "/hooks/b", jobId: 2 },
  { origin: "x402", jobId: 2 },
];

beforeAll(async () => {
  ids = [...(await fixture.fail(FAILED, "runner.refused")), ...(await fixture.fail(FAILED, "runner.failed"))];
  // Failed at 1000, 2000, ... so that times can be named.
  for (const [i, id] of ids.entries()) {
    const { queue } = await fixture.find(id);
    await fixture.redis.client.zadd(keys.inQueue(queue, "failed"), "XX", (i + 1) * 1000, id);
  }
});

async function found(filter: CallFilter, newestFirst = false): Promise<number[]> {
  const places: number[] = [];
  for await (const { id } of fixture.calls.matching(filter, { newestFirst })) places.push(ids.indexOf(id));
  return places;
}

test.each<[string, CallFilter, number[]]>([
  ["nothing", {}, [0, 1, 2, 3, 4, 5]],
  ["origin", { origin: "x402" }, [2, 5]],
  ["the path they came in by", { endpoint: "/hooks/b" }, [1, 4]],
  ["job", { jobId: 2 }, [1, 2, 4, 5]],
  ["job of another service", { serviceId: 8, jobId: 2 }, []],
  ["job of one service, by one origin", { serviceId: 7, jobId: 2, origin: "x402" }, [2, 5]],
  ["error code", { code: "runner.failed" }, [3, 4, 5]],
  ["the time they failed, both ends included", { since: 2000, until: 4000 }, [1, 2, 3]],
  ["several things, which must all hold", { jobId: 2, code: "runner.refused", origin: "webhook" }, [1]],
  ["something no call has", { endpoint: "/hooks" }, []],
])("failed calls filtered by %s are found, oldest first, and counted", async (_, filter, expected) => {
  expect(await found(filter)).toEqual(expected);
  expect(await found(filter, true)).toEqual(expected.toReversed());
  expect(await fixture.calls.count(filter)).toBe(expected.length);
});

test("failed calls are found by id, together with other filters, and ids of nothing are ignored", async () => {
  const wanted = [ids[4] ?? "", ids[2] ?? "", `c_${"0".repeat(32)}`];
  expect(await found({ ids: wanted })).toEqual([4, 2]);
  expect(await found({ ids: wanted, origin: "x402" })).toEqual([2]);
  expect(await found({ ids: wanted, until: 3000 })).toEqual([2]);
  expect(await fixture.calls.count({ ids: wanted })).toBe(2);
});

test("a failed call says why it failed, after how many attempts, and what was to be run", async () => {
  expect(await fixture.find(ids[3] ?? "")).toMatchObject({
    code: "runner.failed",
    reason: "the runner said\nno \u001b[31m",
    attempts: fixture.attempts,
    queue: "webhook/7/1",
    head: { path: "/hooks/a", content_type: "application/json" },
  });
});

test("a failed call that no longer parses is listed all the same", async () => {
  const [id = ""] = await fixture.fail([{}]);
  await fixture.redis.client.hset(keys.inQueue("webhook/7/1", id), "data", '{"v":99}');
  const failed = await fixture.find(id);
  expect(failed).toMatchObject({ code: "runner.refused" });
  expect(await fixture.calls.stored(failed)).toEqual({ call: undefined, stored: { v: 99 } });
  await fixture.redis.client.zrem(keys.inQueue("webhook/7/1", "failed"), id);
});

test("a walk over the failed calls meets each once, even where many failed in one millisecond", async () => {
  const many = await fixture.fail(Array.from({ length: 1100 }, () => ({ path: "/hooks/many" })));
  await fixture.redis.client.zadd(
    keys.inQueue("webhook/7/1", "failed"),
    "XX",
    ...many.flatMap((id) => [10_000, id]),
  );
  for (const newestFirst of [true, false]) {
    const met: string[] = [];
    for await (const { id } of fixture.calls.matching({ since: 10_000 }, { newestFirst })) met.push(id);
    expect(met.toSorted()).toEqual(many.toSorted());
  }
});

test("a walk over the failed calls skips none before it when calls behind it leave", async () => {
  const many = await fixture.redis.client.zrangebyscore(
    keys.inQueue("webhook/7/1", "failed"),
    10_000,
    "+inf",
  );
  await fixture.redis.client.zadd(
    keys.inQueue("webhook/7/1", "failed"),
    "XX",
    ...many.flatMap((id, i) => [10_000 + Math.floor(i / 10), id]),
  );
  const met = new Set<string>();
  for await (const { id } of fixture.calls.matching({ since: 10_000 })) {
    met.add(id);
    await fixture.redis.client.zrem(keys.inQueue("webhook/7/1", "failed"), id);
  }
  expect(met).toEqual(new Set(many));
});
