import { beforeEach, expect, test } from "vitest";
import type { AuditPage } from "../../../shared/console/audit-trail.ts";
import type { CallFacetsView } from "../../../shared/console/call-facets.ts";
import type { FoundCalls } from "../../../shared/console/calls.ts";
import type { FailedGroupView, FailedPage } from "../../../shared/console/failed.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { refusalOf, type TestOperator, useOperator } from "../../fixtures/console.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { asUser, useRedis } from "../../fixtures/redis.ts";
import { useRedisProxy } from "../../fixtures/redis-proxy.ts";
import { LONG_RUN, onlyInLongRun } from "../../support/long-run.ts";
import { partitionsOver } from "../../support/partitions.ts";
import { runIn } from "./run-of.ts";

const COUNT = 4;

const redis = useRedis();
const fixture = useOperator({ redis });
const calls = useFailedCalls({ redis, partitions: COUNT });
const proxy = useRedisProxy(redis);

const start = (options = {}) => fixture.start({ partitions: COUNT, ...options });

/** Returns the items of all pages of a list, each of which must continue the previous one. */
async function pagesOf<Page extends { next: string | null }>(
  { get }: TestOperator,
  path: string,
): Promise<Page[]> {
  const pages: Page[] = [];
  for (let next: string | null = ""; next !== null; ) {
    const page: Page = (await get(`${path}${next === "" ? "" : `&cursor=${next}`}`)).json<Page>();
    pages.push(page);
    next = page.next;
  }
  return pages;
}

const partitionOf = (id: string) => partitionsOver(redis.client, COUNT).indexOf(id);

function eachOnceNewestFirst(found: readonly { id: string; at: string }[], ids: readonly string[]): void {
  expect(found.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
  const times = found.map(({ at }) => Date.parse(at));
  expect(times).toEqual(times.toSorted((a, b) => b - a));
}

let ids: string[];

beforeEach(async () => {
  ids = await calls.fail(Array.from({ length: 40 }, () => ({})));
  expect(new Set(ids.map(partitionOf)).size).toBe(COUNT);
});

onlyInLongRun(() => {
  test("lists of failed calls and of all calls page through every partition in one order, and counts cover all", async () => {
    const waiting = await Promise.all(Array.from({ length: 9 }, () => calls.add({ path: "/hooks/b" })));
    const service = await start();
    const failed = (await pagesOf<FailedPage>(service, "/api/v1/failed?limit=3")).flatMap(
      (page) => page.calls,
    );
    eachOnceNewestFirst(
      failed.map(({ id, failed_at: at }) => ({ id, at })),
      ids,
    );
    const filtered = await pagesOf<FailedPage>(service, "/api/v1/failed?limit=3&text=runner%20said");
    expect(filtered.flatMap((page) => page.calls)).toHaveLength(ids.length);
    for (const limit of [1, 7]) {
      const pages = await pagesOf<FoundCalls>(service, `/api/v1/calls?limit=${limit}`);
      eachOnceNewestFirst(
        pages.flatMap((page) => page.calls),
        [...ids, ...waiting],
      );
    }
    expect((await service.get("/api/v1/failed/count")).json()).toEqual({ matched: 40, total: 40 });
    const { groups } = (await service.get("/api/v1/failed/groups")).json<{ groups: FailedGroupView[] }>();
    expect(groups).toMatchObject([{ code: "runner.refused", count: 40 }]);
    const facets = (await service.get("/api/v1/calls/facets")).json<CallFacetsView>();
    expect(facets).toMatchObject({ matched: 49, is_complete: true });
    expect(facets.facets.find(({ name }) => name === "state")?.values).toEqual([
      { value: "failed", count: 40 },
      { value: "waiting", count: 9 },
    ]);
    const { queues } = (await service.get("/api/v1/queues")).json<{ queues: unknown[] }>();
    expect(queues).toContainEqual(expect.objectContaining({ origin: "webhook", waiting: 9, failed: 40 }));
  });
});

test("a request for one call, by id or prefix, is answered from its partition", async () => {
  const service = await start();
  for (const id of ids.slice(0, LONG_RUN ? 12 : 4)) {
    for (const q of [`id=${id}`, `id=${id.slice(0, 12)}`, `q=${id}`, `q=${id.slice(0, 12)}`]) {
      const found = (await service.get(`/api/v1/calls?${q}`)).json<FoundCalls>();
      expect(found.calls.map((call) => call.id)).toEqual([id]);
    }
    expect((await service.get(`/api/v1/calls/${id}`)).json()).toMatchObject({ call_id: id, state: "failed" });
    expect((await service.get(`/api/v1/failed/${id}`)).json()).toMatchObject({ id });
    expect((await service.get(`/api/v1/failed/${id}/body`)).body.toString()).toBe(`body of ${id}`);
  }
  const [replayed = "", discarded = "", forgotten = ""] = ids;
  const why = { reason: "x" };
  for (const path of [`failed/${replayed}/replay`, `failed/${discarded}/discard`])
    expect((await service.post(`/api/v1/${path}`, why)).status).toBe(204);
  expect((await service.post(`/api/v1/calls/${forgotten}/forget`, why)).status).toBe(200);
  const states = [replayed, discarded, forgotten].map(async (id) =>
    (await service.get(`/api/v1/calls/${id}`)).json(),
  );
  expect(await Promise.all(states)).toMatchObject([
    { state: "queued" },
    { state: "discarded" },
    { forgotten_at: expect.any(String) },
  ]);
  expect(refusalOf(await service.post(`/api/v1/failed/${discarded}/replay`, why))).toEqual([
    409,
    "call.not_failed",
  ]);
});

onlyInLongRun(() => {
  test("the audit log has the lines of all partitions in one order, each exactly once, for any page size", async () => {
    const service = await start();
    for (const id of ids) await service.post(`/api/v1/failed/${id}/replay`, { reason: "one by one" });
    for (const limit of [1, 3, 100]) {
      const pages = await pagesOf<AuditPage>(service, `/api/v1/audit?action=replay&limit=${limit}`);
      const lines = pages.flatMap((page) => page.entries);
      expect(lines.map((line) => line.call_id)).toEqual(ids.toReversed());
      expect(new Set(lines.map((line) => line.id)).size).toBe(ids.length);
    }
    const own = (await service.get(`/api/v1/audit?call_id=${ids[5]}`)).json<AuditPage>();
    expect(own.entries).toMatchObject([{ action: "replay", call_id: ids[5] }]);
  });

  test("a bulk replay selects the oldest calls of all partitions, and reports named calls that are missing", async () => {
    const service = await start();
    const oldest = (await pagesOf<FailedPage>(service, "/api/v1/failed?limit=50"))
      .flatMap((page) => page.calls)
      .slice(-10)
      .map(({ id }) => id);
    const begun = await service.post("/api/v1/failed/replays", { all: true, limit: 10, reason: "x" });
    await runIn(service, String(begun.headers["location"]), "done");
    const left = (await service.get("/api/v1/failed?limit=50")).json<FailedPage>().calls.map(({ id }) => id);
    expect(left).not.toEqual(expect.arrayContaining([oldest[0]]));
    expect([...left, ...oldest].toSorted()).toEqual(ids.toSorted());
    const order = { call_ids: [...left.slice(0, 8), oldest[0]], reason: "x" };
    const named = await service.post("/api/v1/failed/replays", order);
    expect(await runIn(service, String(named.headers["location"]), "done")).toMatchObject({
      ...{ matched: 8, done: 8, outcome: { waiting: 8, failed_again: 0, is_whole: true } },
      missing: [{ code: "call.not_failed", detail: expect.stringContaining(oldest[0] ?? "") }],
    });
  });

  test("a bulk replay of 200 calls whose process dies is completed by another process, and each call is replayed once", async () => {
    const more = await calls.fail(Array.from({ length: 160 }, () => ({})));
    const all = [...ids, ...more];
    const before = new Map(all.map((id) => [id, calls.offered(id)]));
    const dying = await start({ redisUrl: asUser(proxy.url, "operator") });
    proxy.replyPauseMs = () => 10;
    const order = { all: true, concurrency: 2, reason: "x" };
    const location = String((await dying.post("/api/v1/failed/replays", order)).headers["location"]);
    const isMidway = async () => {
      const { total } = (await other.get("/api/v1/failed/count")).json<{ total: number }>();
      return total < 180 && total > 0;
    };
    const other = await start();
    await eventually("some calls are replayed", isMidway);
    // From now on none of its commands arrives, as if it had been killed.
    proxy.onCommand = () => ({ kind: "lose-command" });
    const done = await runIn(other, location, "done");
    expect(done.matched).toBe(200);
    expect(done.done + done.left_meanwhile).toBe(200);
    const lines = await pagesOf<AuditPage>(other, `/api/v1/audit?action=replay&run=${done.id}&limit=30`);
    const replayed = lines.flatMap((page) => page.entries).map(({ call_id: id }) => id);
    expect(replayed.toSorted()).toEqual(all.toSorted());
    await calls.startProducer();
    await eventually("all are injected", () => all.every((id) => calls.offered(id) > (before.get(id) ?? 0)));
    await calls.stopProducer();
    expect(all.filter((id) => calls.offered(id) !== (before.get(id) ?? 0) + 1)).toEqual([]);
  }, 60_000);
});
