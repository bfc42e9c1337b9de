import { beforeEach, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { STEPS, SUBJECTS_MAX } from "../../../../shared/telemetry/series/buckets.ts";
import { type Counts, totalOf, totalsOfOrigin } from "../../../../shared/telemetry/series/counts.ts";
import { createReadSeries } from "../../../../shared/telemetry/series/read.ts";
import { Series } from "../../../../shared/telemetry/series/series.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { useReports } from "../../../fixtures/reports.ts";

const redis = useRedis();
const proxy = useRedisProxy(redis);
const { start } = useReports(redis);

beforeEach(async () => {
  await redis.client.flushdb();
});

const MINUTE = 60_000;
/** A time at which both a fine bucket and a coarse one begin. */
const NOON = Date.UTC(2026, 2, 1, 12);

let now = NOON;
const clock = () => now;
beforeEach(() => {
  now = NOON;
});
const read = () => createReadSeries(redis.partition, clock);

const injected = (fields: Record<string, unknown> = {}) => ({
  ...{ callId: "c_1", origin: "webhook", serviceId: 7, jobId: 1, attempt: 1, injectMs: 1, endToEndMs: 40 },
  ...fields,
});

async function countsOf(subject: object, step: "fine" | "coarse" = "fine"): Promise<Counts | undefined> {
  const { counted } = await read().total(step);
  return counted.find((each) => JSON.stringify(each.subject) === JSON.stringify(subject))?.counts;
}

const NOTHING_ELSE = { disputes: 0, disputed: 0n, refunds: 0, refunded: 0n };

const JOB = { kind: "job", origin: "webhook", job: "7/1" };

test("counts of a job from several processes add up in the bucket of their time, fine for an hour and coarse for a day", async () => {
  const one = await start({ clock });
  const other = await start({ clock });
  one.log.info("call.injected", injected());
  other.log.info("call.injected", injected());
  other.log.warn("call.delayed", injected({ code: "runner.busy" }));
  now += 12_000;
  other.log.error("call.failed", injected({ code: "runner.refused" }));
  await Promise.all([one.flush(), other.flush()]);

  const fine = await read().buckets("fine");
  expect(fine).toMatchObject({ stepMs: 10_000 });
  expect(fine.buckets).toHaveLength(372);
  const [before, last] = fine.buckets.slice(-2);
  expect(before).toMatchObject({
    at: NOON,
    counted: [{ subject: JOB, counts: { injected: 2, failed: {} } }],
  });
  expect(last).toMatchObject({
    at: NOON + 10_000,
    counted: [{ counts: { failed: { "runner.refused": 1 } } }],
  });

  const coarse = await read().buckets("coarse");
  expect(coarse.buckets).toHaveLength(288);
  expect(coarse.buckets.at(-1)).toMatchObject({ at: NOON, counted: [{ counts: { injected: 2 } }] });
  const counts = (await countsOf(JOB, "coarse")) as Counts;
  expect(counts).toMatchObject({
    injected: 2,
    delayed: { "runner.busy": 1 },
    failed: { "runner.refused": 1 },
  });
});

test("buckets expire once they can no longer be read, and a range is read without the rest", async () => {
  const { log, flush } = await start({ clock });
  log.info("call.injected", injected());
  await flush();
  const kept = STEPS.fine.keptMs + 2 * STEPS.fine.ms;
  expect(await redis.client.pttl(keys.series("fine", NOON))).toBeGreaterThan(kept - MINUTE);
  expect(await redis.client.pttl(keys.series("fine", NOON))).toBeLessThanOrEqual(kept);
  expect(await redis.client.pttl(keys.series("coarse", NOON))).toBeGreaterThan(STEPS.coarse.keptMs);
  const { buckets } = await read().buckets("fine", { since: NOON - 15_000, until: NOON - 1 });
  expect(buckets).toMatchObject([{ at: NOON - 20_000 }, { at: NOON - 10_000 }]);
  now += 62 * MINUTE;
  expect(await countsOf(JOB)).toBeUndefined();
  expect(await countsOf(JOB, "coarse")).toMatchObject({ injected: 1 });
});

test("a report whose reply was lost is sent again, and counted once", async () => {
  const { log, flush, said } = await start({ clock, redisUrl: proxy.url });
  log.info("call.injected", injected());
  proxy.onCommand = (words) =>
    words.includes("call.injected") || words[0] === "EVALSHA" ? { kind: "lose-reply" } : undefined;
  await flush();
  expect(said.events.map(({ event }) => event)).toContain("report.failed");
  expect(await countsOf(JOB)).toMatchObject({ injected: 1 });

  proxy.onCommand = () => undefined;
  log.info("call.injected", injected());
  await eventually("the connection is back and the rest is reported", async () => {
    await flush();
    return (await countsOf(JOB))?.injected !== 1;
  });
  await flush();
  expect(await countsOf(JOB)).toMatchObject({ injected: 2 });
});

test("the next report includes the counts of a report that Redis never got, and memory stays limited in the meantime", async () => {
  const { log, flush } = await start({ clock, redisUrl: proxy.url });
  proxy.onCommand = () => ({ kind: "lose-command" });
  for (let minute = 0; minute < 30; minute++) {
    log.info("call.injected", injected());
    now += MINUTE;
  }
  await flush();
  proxy.onCommand = () => undefined;
  await eventually("it is reported", async () => {
    await flush();
    return (await countsOf(JOB)) !== undefined;
  });
  expect(await countsOf(JOB)).toMatchObject({ injected: 30 });
  const { buckets } = await read().buckets("fine");
  expect(buckets.filter(({ counted }) => counted.length > 0)).toHaveLength(6);
});

test("a bucket has a limited number of jobs and endpoints; those above it are counted together", async () => {
  const one = await start({ clock, kind: "webhooks", serviceId: 7 });
  const other = await start({ clock });
  for (let jobId = 0; jobId < SUBJECTS_MAX + 50; jobId++)
    other.log.info("call.injected", injected({ jobId }));
  await other.flush();
  for (let n = 0; n < 50; n++)
    one.log.info("webhook.accepted", { path: `/${n}`, jobId: 10_000 + n, replayed: false });
  one.log.warn("webhook.path_unknown", { count: 3 });
  await one.flush();

  const { counted } = await read().total("fine");
  expect(counted.length).toBeLessThanOrEqual(SUBJECTS_MAX + 4);
  expect(await countsOf({ kind: "job", origin: "webhook" })).toMatchObject({ accepted: 50 });
  expect(await countsOf({ kind: "endpoint" })).toMatchObject({ accepted: 50 });
  const { accepted, injected: taken, refused } = totalsOfOrigin("webhook", counted);
  expect({ accepted, taken, refused }).toEqual({ accepted: 50, taken: SUBJECTS_MAX + 50, refused: 3 });
});

test("a process that counts very many jobs and tokens in one interval keeps a limited number of them apart", () => {
  const series = new Series(clock);
  for (let n = 0; n < 3 * SUBJECTS_MAX; n++) {
    series.count(`job:webhook/7/${n}`, "accepted");
    series.countPayment({ network: "eip155:1", asset: "0xa", job: `0/${n}` }, 1n);
  }
  const { buckets, earned } = series.take();
  for (const kept of [...buckets.values(), ...earned.values()]) expect(kept.size).toBe(SUBJECTS_MAX + 1);
  expect(buckets.get(NOON)?.get("job:webhook/*")).toEqual({ accepted: 2 * SUBJECTS_MAX });
  expect(earned.get("2026-03-01")?.get("eip155:1 0xa *")?.amount).toBe(BigInt(2 * SUBJECTS_MAX));
});

test("requests are counted by endpoint: accepted, known before, refused by code, credentials by reason, dropped, handshakes", async () => {
  const { log, flush } = await start({ clock, kind: "webhooks", serviceId: 7 });
  const refused = { path: "/a", code: "webhook.credential_rejected" };
  log.info("webhook.accepted", { path: "/a", jobId: 1, replayed: false });
  log.info("webhook.accepted", { path: "/a", jobId: 1, replayed: true });
  log.warn("webhook.refused", { ...refused, reason: "mismatch: header x" });
  log.warn("webhook.refusals_unlogged", { ...refused, reason: "missing", times: 4 });
  log.warn("webhook.refusals_limited", { path: "/a", code: "request.rate_limited", times: 2 });
  log.info("webhook.dropped", { path: "/a" });
  log.info("webhook.handshake_answered", { path: "/a" });
  await flush();
  expect(await countsOf({ kind: "endpoint", path: "/a" })).toMatchObject({
    ...{ accepted: 1, replayed: 1, dropped: 1, handshakes: 1 },
    refused: { "webhook.credential_rejected": 5, "request.rate_limited": 2 },
    unauthorized: { mismatch: 1, missing: 4 },
  });
  expect(await countsOf(JOB)).toMatchObject({ accepted: 1, replayed: 1 });
});

test("the time of the last refused credential is known by reason to the millisecond, across all gateways", async () => {
  const [one, other] = await Promise.all([start({ clock }), start({ clock })]);
  const refused = { path: "/a", code: "webhook.credential_rejected" };
  const newest = async (step?: "coarse") => (await countsOf({ kind: "endpoint", path: "/a" }, step))?.newest;
  one.log.warn("webhook.refused", { ...refused, reason: "mismatch: header x" });
  now += 1234;
  other.log.warn("webhook.refused", { ...refused, reason: "mismatch" });
  other.log.info("webhook.accepted", { path: "/a", jobId: 1, replayed: false });
  await other.flush();
  await one.flush();
  expect(await newest()).toEqual({ mismatch: NOON + 1234 });
  now += 20 * MINUTE;
  one.log.warn("webhook.refused", { ...refused, reason: "stale: 400 s", times: 7 });
  await one.flush();
  for (const step of [undefined, "coarse"] as const)
    expect(await newest(step)).toEqual({ mismatch: NOON + 1234, stale: now });
  expect(await countsOf({ kind: "endpoint", path: "/a" }, "coarse")).toMatchObject({
    unauthorized: { mismatch: 2, stale: 7 },
  });
});

test("the earnings of a job on a day are exact, of any size, over all gateways and days", async () => {
  const gateways = await Promise.all([start({ clock, kind: "x402" }), start({ clock, kind: "x402" })]);
  const settled = (amount: string, jobIndex = 1) => ({
    ...{ network: "eip155:8453", asset: "0xabc", serviceId: 0, jobIndex, amount },
  });
  const large = `${"9".repeat(77)}8`;
  for (const [i, { log }] of gateways.entries()) {
    log.info("payment.settled", settled(large));
    log.info("payment.settled", settled(String(i)));
    log.info("payment.challenged", { serviceId: 0, jobIndex: 1, times: 5 });
    log.warn("payment.refused", { serviceId: 0, jobIndex: 99, code: "payment.rejected", times: 2 });
  }
  await Promise.all(gateways.map(({ flush }) => flush()));
  now += 24 * 60 * MINUTE;
  gateways[0]?.log.info("payment.settled", settled("7", 2));
  await gateways[0]?.flush();

  const token = { network: "eip155:8453", asset: "0xabc" };
  expect(await read().earned(30)).toEqual([
    { day: "2026-03-02", ...token, job: "0/2", payments: 1, amount: 7n, ...NOTHING_ELSE },
    {
      day: "2026-03-01",
      ...token,
      job: "0/1",
      payments: 4,
      amount: 2n * BigInt(large) + 1n,
      ...NOTHING_ELSE,
    },
  ]);
  now = NOON;
  expect(await countsOf({ kind: "job", origin: "x402", job: "0/1" })).toMatchObject({
    accepted: 4,
    challenged: 10,
  });
  const { counted } = await read().total("fine");
  expect(totalsOfOrigin("x402", counted)).toMatchObject({ accepted: 4, refused: 4 });
});

test("percentiles of durations from several processes are off by less than a fifth if the durations are spread evenly", async () => {
  const processes = await Promise.all([start({ clock }), start({ clock })]);
  for (let ms = 1; ms <= 1000; ms++)
    processes[ms % 2]?.log.info("call.injected", injected({ endToEndMs: ms }));
  await Promise.all(processes.map(({ flush }) => flush()));
  const { p50Ms = 0, p99Ms = 0 } = totalsOfOrigin("webhook", (await read().total("fine")).counted);
  expect(p50Ms / 500).toBeGreaterThan(0.8);
  expect(p50Ms / 500).toBeLessThan(1.2);
  expect(p99Ms / 990).toBeGreaterThan(0.8);
  expect(p99Ms / 990).toBeLessThan(1.2);
  expect(totalsOfOrigin("x402", [])).toMatchObject({ injected: 0, p50Ms: undefined });
});

test("a call that was replayed after weeks counts only its own duration", async () => {
  const { log, flush } = await start({ clock });
  const took = 30 * 86_400_000;
  log.info("call.injected", injected({ endToEndMs: took }));
  await flush();
  const { p99Ms = 0 } = totalsOfOrigin("webhook", (await read().total("fine")).counted);
  expect(p99Ms / took).toBeGreaterThan(0.6);
  expect(p99Ms / took).toBeLessThan(1.4);
});

test("nothing is written with console.report off", async () => {
  const { posternToml } = await import("../../../../shared/config/postern-toml.ts");
  const { log, flush } = await start({
    clock,
    postern: posternToml({ env: {} }).parse({ console: { report: false } }),
  });
  log.info("call.injected", injected());
  await flush();
  expect(await redis.client.dbsize()).toBe(0);
  expect(totalOf({})).toBe(0);
});
