import { beforeAll, expect, test } from "vitest";
import type { CallFilter } from "../../../shared/queue/failed.ts";
import { type NewCall, useFailedCalls } from "../../fixtures/failed-calls.ts";
import { keys } from "../../fixtures/redis.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { multiplyFailed } from "../../support/multiply-failed.ts";

const fixture = useFailedCalls({ fresh: "file" });
let ids: string[];

const FAILED: NewCall[] = [
  { path: "/hooks/a", jobId: 1 },
  { path: "/hooks/b", jobId: 2 },
  { origin: "x402", jobId: 2 },
];

beforeAll(async () => {
  ids = [...(await fixture.fail(FAILED, "runner.refused")), ...(await fixture.fail(FAILED, "runner.failed"))];
  // The calls get the failure times 1000, 2000 and so on, so that tests can select by time.
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
  ["a text of their path, in any case", { text: "HOOKS/B" }, [1, 4]],
  ["a text of their reason and a code", { text: "the runner said", code: "runner.failed" }, [3, 4, 5]],
  ["something no call has", { endpoint: "/hooks" }, []],
])("failed calls filtered by %s are found, oldest first, and counted", async (_, filter, expected) => {
  expect(await found(filter)).toEqual(expected);
  expect(await found(filter, true)).toEqual(expected.toReversed());
  expect(await fixture.calls.count(filter)).toBe(expected.length);
});

test("failed calls without a head are found by path and code too, without reading their bodies", async () => {
  const { client } = fixture.redis;
  const [id = ""] = await fixture.fail([{ path: "/hooks/old", body: Buffer.alloc(100_000) }]);
  const key = keys.inQueue("webhook/7/1", id);
  const head = await client.hget(key, "head");
  expect(await client.hdel(key, "head")).toBe(1);
  const filter: CallFilter = { endpoint: "/hooks/old", code: "runner.refused" };
  expect(await fixture.calls.count(filter)).toBe(1);
  const { head: read } = await fixture.find(id);
  expect(read).toEqual(JSON.parse(head ?? ""));
  await client.zrem(keys.inQueue("webhook/7/1", "failed"), id);
});

test("only the code and the times are known of a failed call whose head cannot be parsed", async () => {
  const [id = ""] = await fixture.fail([{ path: "/hooks/later" }]);
  await fixture.redis.client.hset(keys.inQueue("webhook/7/1", id), "head", "?");
  expect(await fixture.find(id)).toMatchObject({ code: "runner.refused", head: {} });
  expect(await fixture.calls.count({ ids: [id], endpoint: "/hooks/later" })).toBe(0);
  await fixture.redis.client.zrem(keys.inQueue("webhook/7/1", "failed"), id);
});

test("failed calls are found by id, together with other filters, and unknown ids are ignored", async () => {
  const wanted = [ids[4] ?? "", ids[2] ?? "", `c_${"0".repeat(32)}`];
  expect(await found({ ids: wanted })).toEqual([4, 2]);
  expect(await found({ ids: wanted, origin: "x402" })).toEqual([2]);
  expect(await found({ ids: wanted, until: 3000 })).toEqual([2]);
  expect(await fixture.calls.count({ ids: wanted })).toBe(2);
});

test("pages of the newest failed calls continue where the previous page ended, even if calls leave meanwhile", async () => {
  const met: number[] = [];
  let after: { failedAt: number; id: string } | undefined;
  for (let pages = 0; pages < 10; pages++) {
    const { calls, next } = await fixture.calls.page({}, { after, limit: 2 });
    met.push(...calls.map(({ id }) => ids.indexOf(id)));
    if (next === undefined) break;
    after = next;
    expect(next).toEqual({ failedAt: (met.at(-1)! + 1) * 1000, id: ids[met.at(-1)!] });
  }
  expect(met).toEqual([5, 4, 3, 2, 1, 0]);
  const some = await fixture.calls.page({ code: "runner.failed" }, { limit: 2 });
  const gone = { failedAt: 4500, id: `c_${"f".repeat(32)}` };
  expect(some.calls.map(({ id }) => ids.indexOf(id))).toEqual([5, 4]);
  const rest = await fixture.calls.page({ code: "runner.failed" }, { after: gone, limit: 2 });
  expect([rest.calls.map(({ id }) => ids.indexOf(id)), rest.next]).toEqual([[3], undefined]);
});

test("failed calls are counted by queue and code, as a filter selects them", async () => {
  const inOrder = async (filter: CallFilter) =>
    (await fixture.calls.groups(filter))
      .map(({ queue, code, count }) => `${queue} ${code} ${count}`)
      .toSorted();
  expect(await inOrder({})).toEqual([
    ...["webhook/7/1 runner.failed 1", "webhook/7/1 runner.refused 1"],
    ...["webhook/7/2 runner.failed 1", "webhook/7/2 runner.refused 1"],
    ...["x402/7/2 runner.failed 1", "x402/7/2 runner.refused 1"],
  ]);
  expect(await inOrder({ endpoint: "/hooks/b", since: 5000 })).toEqual(["webhook/7/2 runner.failed 1"]);
});

test("a failed call says why it failed, after how many attempts, and what it was", async () => {
  expect(await fixture.find(ids[3] ?? "")).toMatchObject({
    code: "runner.failed",
    reason: "the runner said\nno \u001b[31m",
    attempts: fixture.attempts,
    queue: "webhook/7/1",
    head: { path: "/hooks/a", content_type: "application/json" },
  });
});

test("a failed call that can no longer be parsed is still listed", async () => {
  const [id = ""] = await fixture.fail([{}]);
  await fixture.redis.client.hset(keys.inQueue("webhook/7/1", id), "data", '{"v":99}');
  const failed = await fixture.find(id);
  expect(failed).toMatchObject({ code: "runner.refused" });
  expect(await fixture.calls.stored(failed)).toEqual({ call: undefined, stored: { v: 99 } });
  await fixture.redis.client.zrem(keys.inQueue("webhook/7/1", "failed"), id);
});

onlyInLongRun(() => {
  test("a walk over the failed calls yields each once, even if many failed in one millisecond", async () => {
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

  test.each([10, 1100])(
    "a walk over failed calls, %i a millisecond, skips none if calls behind its position leave",
    async (each) => {
      const many = await fixture.redis.client.zrangebyscore(
        keys.inQueue("webhook/7/1", "failed"),
        10_000,
        "+inf",
      );
      const place = (i: number) => 10_000 + Math.floor(i / each);
      const failed = keys.inQueue("webhook/7/1", "failed");
      for (const newestFirst of [true, false]) {
        await fixture.redis.client.zadd(failed, ...many.flatMap((id, i) => [place(i), id]));
        const met = new Set<string>();
        for await (const { id } of fixture.calls.matching({ since: 10_000 }, { newestFirst })) {
          met.add(id);
          // Calls that stay among the failed ones must not be found a second time.
          if (met.size % 3 !== 0) await fixture.redis.client.zrem(failed, id);
        }
        expect(met).toEqual(new Set(many));
      }
    },
  );
});

test("a walk over many failed calls reads one page at a time", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const of = { id, queue: "webhook/7/1" };
  await multiplyFailed(fixture.redis.partition, { of, copies: 2000, queues: ["webhook/8/1", "webhook/8/2"] });
  await fixture.redis.client.config("RESETSTAT");
  for await (const _ of fixture.calls.matching({ serviceId: 8 })) break;
  const stats = await fixture.redis.client.info("commandstats");
  expect(Number(/cmdstat_hmget:calls=(\d+)/.exec(stats)?.[1])).toBe(500);
  expect(stats).not.toMatch(/cmdstat_(hgetall|hget|hvals):/);
  const met = new Set<string>();
  for await (const call of fixture.calls.matching({ serviceId: 8 })) met.add(call.id);
  expect(met.size).toBe(2000);
});

test("a call that was replayed during the search is not among the failed ones", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const queue = "webhook/7/1";
  await fixture.replay(await fixture.find(id), { selection: "test" });
  // Puts the id back into the list of failed calls, as a search sees it that read the list before the replay.
  await fixture.redis.client.zadd(keys.inQueue(queue, "failed"), 1, id);
  expect(await fixture.calls.find(id)).toBeUndefined();
  expect(await fixture.calls.count({ ids: [id], code: "runner.refused" })).toBe(0);
});
