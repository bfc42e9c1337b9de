import { describe, expect, test } from "vitest";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { createAudit } from "../../../../shared/redis/audit/audit.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useRedis } from "../../../fixtures/redis.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

describe("200", () => {
  const CALL = `c_${"1".repeat(32)}`;

  type Page = { entries: Record<string, unknown>[]; next: string | null };

  async function list(query = ""): Promise<Page> {
    const { get } = await fixture.start();
    const answer = await get(`/api/v1/audit${query}`, { as: "viewer" });
    expect(answer.status).toBe(200);
    return answer.json<Page>();
  }

  test("the audit log says who did what, when and why, newest first, for acts of the console and of commands, and can be filtered", async () => {
    const { post } = await fixture.start();
    const audit = createAudit(redis.partition, silentLogger);
    const at = Date.parse("2026-01-31T00:00:00Z");
    await audit({
      at,
      action: "discard",
      callId: CALL,
      by: "root@ops",
      selection: "--all",
      reason: "a test",
    });
    await audit({ at: at + 1000, action: "open", path: "/a", by: "root@ops", selection: "for 10m" });
    await post("/api/v1/jobs/7/1/pause", { reason: "its runner is being mended" });

    const all = await list();
    expect(all).toEqual({
      entries: [
        {
          ...{
            id: expect.any(String),
            at: expect.any(String),
            action: "pause",
            by: "otto",
            job: "7/1",
            stream: "acts",
          },
          ...{ selection: "by name", reason: "its runner is being mended" },
        },
        {
          ...{ id: expect.any(String), at: "2026-01-31T00:00:01.000Z", action: "open", by: "root@ops" },
          ...{ endpoint: "/a", selection: "for 10m", stream: "acts" },
        },
        {
          ...{ id: expect.any(String), at: "2026-01-31T00:00:00.000Z", action: "discard", by: "root@ops" },
          ...{ call_id: CALL, selection: "--all", reason: "a test", stream: "acts" },
        },
      ],
      next: null,
    });
    const picked: [string, unknown[]][] = [
      ["by=otto", ["pause"]],
      ["action=open", ["open"]],
      ["job=7/1", ["pause"]],
      [`call_id=${CALL}`, ["discard"]],
      ["since=2026-01-31T00:00:01Z", ["pause", "open"]],
      ["until=2026-01-31T00:00:01Z", ["open", "discard"]],
    ];
    for (const [query, expected] of picked) {
      const { entries } = await list(`?${query}`);
      expect([query, entries.map(({ action }) => action)]).toEqual([query, expected]);
    }
    const met: unknown[] = [];
    let page = await list("?limit=1");
    for (;;) {
      met.push(...page.entries.map(({ action }) => action));
      if (page.next === null) break;
      page = await list(`?limit=1&cursor=${page.next}`);
    }
    expect(met).toEqual(["pause", "open", "discard"]);
  });

  test("reads are listed only on request, by stream or by action", async () => {
    await redis.client.flushdb();
    const audit = createAudit(redis.partition, silentLogger);
    const common = { at: 1, by: "vera", selection: "by id" };
    await audit({ ...common, action: "read_body", callId: CALL });
    await audit({ ...common, action: "read_rejected", rejectedId: "r_1" });
    await audit({ ...common, action: "sign_in", session: "s_1" });
    const listed = async (query: string) => (await list(query)).entries.map(({ action }) => action);
    expect(await listed("")).toEqual(["sign_in"]);
    expect(await listed("?stream=acts")).toEqual(["sign_in"]);
    expect(await listed("?stream=money")).toEqual([]);
    expect(await listed("?action=read_body")).toEqual(["read_body"]);
    expect((await list("?stream=reads")).entries).toMatchObject([
      { stream: "reads", action: "read_rejected", rejected_id: "r_1" },
      { stream: "reads", action: "read_body", call_id: CALL },
    ]);
  });

  test("a filter finds the acts on a receiver in any spelling of its host", async () => {
    const { post } = await fixture.start();
    await post("/api/v1/jobs/callback/localhost/21190/pause", { reason: "it is away" });
    const { entries } = await list("?job=callback/LOCALHOST./21190");
    expect(entries).toMatchObject([{ action: "pause", job: "callback/localhost/21190" }]);
  });

  test("with grouped, one entry represents the calls of a bulk operation, also across pages", async () => {
    await redis.client.flushdb();
    const audit = createAudit(redis.partition, silentLogger);
    const run = `run_${"a".repeat(32)}`;
    const line = { by: "otto", selection: "--all", reason: "sent twice" };
    for (let i = 0; i < 5; i++) {
      const callId = `c_${String(i).repeat(32)}`;
      await audit({ ...line, at: Date.now(), action: "discard", callId, run });
      if (i === 2) await audit({ ...line, at: Date.now(), action: "pause", job: "7/1" });
    }
    const briefly = ({ entries }: Page) => entries.map(({ action, calls }) => [action, calls]);
    expect(briefly(await list("?grouped=true"))).toEqual([
      ["discard", 5],
      ["pause", undefined],
    ]);
    const first = await list("?grouped=true&limit=1");
    expect(briefly(first)).toEqual([["discard", 2]]);
    const second = await list(`?grouped=true&limit=2&cursor=${first.next}`);
    expect(briefly(second)).toEqual([
      ["pause", undefined],
      ["discard", 3],
    ]);
    expect(second.next).toBeNull();
  });
});

describe("400", () => {
  test.each([
    "since=today",
    "limit=0",
    "cursor=nonsense",
    "who=alice",
    "action=PAUSE",
    "stream=repeats",
    "run=7",
    "cursor=1-1",
    "call_id=c_1",
    "by=",
    "job=07/1",
    "job=callback/..",
  ])("the audit log is refused with 400 for %s", async (query) => {
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/audit?${query}`))).toEqual([400, "request.malformed"]);
  });
});
