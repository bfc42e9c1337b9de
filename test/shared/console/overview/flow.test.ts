import { beforeEach, expect, test } from "vitest";
import { createFlowApi, FlowView } from "../../../../shared/console/overview/flow.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { useReports } from "../../../fixtures/reports.ts";

const redis = useRedis();
const { start } = useReports(redis);

/** The start of an interval of each length. */
const NOON = Date.UTC(2026, 2, 1, 12);
let now = NOON;
const clock = () => now;

beforeEach(async () => {
  now = NOON;
  await redis.client.flushdb();
});

const flow = () => createFlowApi({ partition: redis.partition, clock });
const ofWebhook = { origin: "webhook", serviceId: 7, jobId: 1, callId: "c_1", attempt: 1, injectMs: 1 };

async function report(tell: (log: Awaited<ReturnType<typeof start>>["log"]) => void): Promise<void> {
  const reports = await start({ clock });
  tell(reports.log);
  await reports.flush();
}

test("each interval has the accepted, refused, injected and failed calls of each origin, and their latency", async () => {
  await report((log) => {
    for (let i = 0; i < 3; i++) log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: false });
    log.warn("webhook.refused", { path: "/hooks/a", code: "request.too_large" });
    log.info("call.injected", { ...ofWebhook, endToEndMs: 40 });
  });
  now += 80_000;
  await report((log) => log.error("call.failed", { ...ofWebhook, code: "runner.refused" }));

  const read = FlowView.parse(await flow().read("1h"));
  expect(read).toMatchObject({ step_ms: 60_000 });
  const webhook = read.lines.find(({ origin }) => origin === "webhook");
  expect(webhook?.accepted).toHaveLength(60);
  // The last complete minute, and the minute that has only begun.
  const newest = <Value>(values: readonly Value[] = []) => values.slice(-2);
  expect(newest(webhook?.accepted)).toEqual([3, 0]);
  expect(newest(webhook?.refused)).toEqual([1, 0]);
  expect(newest(webhook?.injected)).toEqual([1, 0]);
  expect(newest(webhook?.failed)).toEqual([0, 1]);
  expect(newest(webhook?.p50_ms)).toEqual([expect.any(Number), null]);
  expect(read.lines.find(({ origin }) => origin === "x402")?.accepted.every((each) => each === 0)).toBe(true);
});

test("percentiles cover all calls of a minute, and all calls of a job; one slow call in a thousand does not change them", async () => {
  now = NOON - 60_000;
  await report((log) => log.info("call.injected", { ...ofWebhook, endToEndMs: 10_000 }));
  now = NOON - 10_000;
  await report((log) => {
    for (let i = 0; i < 999; i++) log.info("call.injected", { ...ofWebhook, endToEndMs: 40 });
  });
  now = NOON + 10_000;
  const { from, lines, jobs } = await flow().read("1h");
  expect(Date.parse(from)).toBe(NOON - 59 * 60_000);
  const webhook = lines.find(({ origin }) => origin === "webhook");
  expect(webhook?.p99_ms.slice(-2)).toEqual([jobs[0]?.p99_ms, null]);
  expect(jobs[0]?.p99_ms).toBeLessThan(46);
});

test("the time for which a call was held back is no part of its latency", async () => {
  await report((log) => {
    log.info("call.injected", { ...ofWebhook, endToEndMs: 60_040, heldMs: 60_000 });
    log.info("call.injected", { ...ofWebhook, endToEndMs: 40, heldMs: 0 });
  });
  now += 80_000;
  const webhook = (await flow().read("1h")).lines.find(({ origin }) => origin === "webhook");
  expect(webhook?.p99_ms.at(-2)).toBeLessThan(60);
  expect(webhook?.held_p50_ms.at(-2)).toBeGreaterThan(36_000);
  expect(webhook?.held_p99_ms.at(-2)).toBeLessThan(84_000);
  expect(webhook?.held_p99_ms.at(-3)).toBeNull();
  expect(webhook?.total.held_p99_ms).toBe(webhook?.held_p99_ms.at(-2));
  expect(Object.keys(webhook?.total ?? {})).not.toContain("heldP99Ms");
});

test("an hour has 60 clock minutes; a later reading shows the same calls in the same minute", async () => {
  now = NOON + 7000;
  await report((log) => log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: false }));
  for (const later of [80_000, 113_000, 240_000, 59 * 60_000, 60 * 60_000 + 9000]) {
    now = NOON + later;
    const { from, lines } = await flow().read("1h");
    const accepted = lines.find(({ origin }) => origin === "webhook")?.accepted ?? [];
    expect(accepted).toHaveLength(60);
    expect(Date.parse(from) + accepted.indexOf(1) * 60_000).toBe(NOON);
  }
});

test("the last minute has calls of 20 s ago, wherever the clock's minute begins, and loses none for 60 s", async () => {
  for (const second of [0, 7, 29, 48, 59]) {
    await redis.client.flushdb();
    const at = NOON + second * 1000;
    now = at;
    await report((log) => {
      for (let i = 0; i < 6; i++)
        log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: false });
      log.info("call.injected", { ...ofWebhook, endToEndMs: 40 });
    });
    for (const later of [20_000, 30_000, 69_000]) {
      now = at + later;
      const minute = (await flow().lastMinute())("webhook");
      expect([later, minute]).toMatchObject([
        later,
        { accepted: 6, injected: 1, p99_ms: expect.any(Number) },
      ]);
    }
    expect((await flow().lastMinute("7/2"))("webhook")).toMatchObject({ injected: 0, p99_ms: null });
    expect((await flow().lastMinute())("x402")).toMatchObject({ accepted: 0 });
    now = at + 80_000;
    expect((await flow().lastMinute())("webhook")).toBeNull();
  }
});

test("an interval without a report is marked as missing, but not one whose processes counted nothing", async () => {
  await report(() => {});
  now += 130_000;
  await report(() => {});
  expect((await flow().read("1h")).missing.slice(-4)).toEqual([true, false, true, false]);
});

test("a day is read in intervals of five minutes, which begin at full five minutes", async () => {
  const { from, step_ms, lines } = await flow().read("24h");
  expect(step_ms).toBe(300_000);
  expect(lines[0]?.accepted).toHaveLength(288);
  expect(Date.parse(from)).toBe(NOON - 287 * 300_000);
});

test("outcomes of each job are summed over the whole time, and the lines of one job can be read", async () => {
  await report((log) => {
    log.info("call.injected", { ...ofWebhook, endToEndMs: 40 });
    log.warn("call.delayed", { ...ofWebhook, code: "runner.unreachable" });
    log.info("call.injected", { ...ofWebhook, jobId: 2, endToEndMs: 40 });
  });
  now += 60_000;
  await report((log) => log.info("call.injected", { ...ofWebhook, endToEndMs: 4000 }));

  const { jobs } = await flow().read("1h");
  const byJob = Object.fromEntries(jobs.map(({ job, ...rest }) => [job, rest]));
  expect(byJob["7/1"]).toMatchObject({ origin: "webhook", injected: 2, delayed: 1, failed: 0 });
  expect(byJob["7/1"]?.p99_ms).toBeGreaterThan(2000);
  expect(byJob["7/2"]).toMatchObject({ injected: 1 });

  const one = await flow().read("1h", "7/2");
  expect(one.jobs.map(({ job }) => job)).toEqual(["7/2"]);
  const injected = one.lines.find(({ origin }) => origin === "webhook")?.injected ?? [];
  expect(injected.reduce((sum, each) => sum + each, 0)).toBe(1);
});

test("an endpoint shows how often each refusal occurred, and why credentials were refused", async () => {
  await report((log) => {
    log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: true });
    const refused = {
      path: "/hooks/a",
      code: "webhook.credential_rejected",
      reason: "signature does not match",
    };
    log.warn("webhook.refused", { ...refused, times: 2 });
  });
  const counts = (await flow().endpoints()).get("/hooks/a");
  expect(counts).toMatchObject({ accepted: 0, replayed: 1, refused: { "webhook.credential_rejected": 2 } });
  expect(Object.values(counts?.unauthorized ?? {})).toEqual([2]);
});

const MISMATCH = { code: "webhook.credential_rejected", reason: "mismatch" };

test("an endpoint that refuses many requests is listed with the reason for ten minutes, even if it accepts many since", async () => {
  await report((log) => {
    log.warn("webhook.refused", { path: "/hooks/a", ...MISMATCH, times: 5 });
    log.warn("webhook.refused", { path: "/hooks/a", code: "request.too_large", times: 1 });
    log.warn("webhook.refused", { path: "/hooks/b", ...MISMATCH, times: 4 });
    for (let i = 0; i < 80; i++)
      log.info("webhook.accepted", { path: "/hooks/c", jobId: 1, replayed: false });
  });
  const named = {
    ...{ endpoint: "/hooks/a", refused: 6, code: MISMATCH.code, reason: "mismatch" },
    newest_from: new Date(NOON).toISOString(),
  };
  now = NOON + 60_000;
  expect((await flow().read("1h")).refusing).toEqual([{ ...named, requests: 6 }]);
  expect((await flow().read("1h", "7/1")).refusing).toEqual([]);
  now = NOON + 300_000;
  await report((log) => {
    for (let i = 0; i < 80; i++)
      log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: false });
  });
  now = NOON + 590_000;
  expect((await flow().read("1h")).refusing).toEqual([{ ...named, requests: 86 }]);
  now = NOON + 680_000;
  expect((await flow().read("1h")).refusing).toEqual([]);
});

test("an endpoint with few refusals among many requests of the same minute is not listed; unknown paths are compared with all requests", async () => {
  await report((log) => {
    log.warn("webhook.refused", { path: "/hooks/a", ...MISMATCH, times: 6 });
    log.warn("webhook.path_unknown", { count: 6 });
    for (let i = 0; i < 60; i++)
      log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: false });
  });
  expect((await flow().read("1h")).refusing).toEqual([]);
  await report((log) => log.warn("webhook.path_unknown", { count: 6 }));
  expect((await flow().read("1h")).refusing).toMatchObject([
    { endpoint: null, requests: 78, refused: 12, code: "request.not_found", reason: null },
  ]);
});
