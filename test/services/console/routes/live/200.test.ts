import { connect } from "node:net";
import { beforeEach, describe, expect, test } from "vitest";
import { createEnqueue } from "../../../../../services/webhooks-gateway/enqueue.ts";
import { JobView } from "../../../../../shared/console/jobs.ts";
import { FlowView } from "../../../../../shared/console/overview/flow.ts";
import { OverviewView } from "../../../../../shared/console/overview/overview.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { type TestOperator, TOKENS, useOperator } from "../../../../fixtures/console.ts";
import { useEnds } from "../../../../fixtures/ends.ts";
import { aCall } from "../../../../fixtures/producer.ts";
import { useRedis } from "../../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";
import { useReports } from "../../../../fixtures/reports.ts";
import { type ReadStream, readStream } from "../../../../support/event-source.ts";
import { onlyInLongRun } from "../../../../support/long-run.ts";

const redis = useRedis();
const fixture = useOperator({ redis });
const proxy = useRedisProxy(redis);
const ends = useEnds();
const { start: startReports } = useReports(redis);
const QUICK = { everyMs: 20, heartbeatMs: 50, flowEveryMs: { "1h": 20, "24h": 20 } };

beforeEach(async () => {
  await redis.client.flushdb();
});

type Options = { query?: string; headers?: Record<string, string> };

async function follow({ address }: TestOperator, { query = "", headers = {} }: Options = {}) {
  const own = "Cookie" in headers ? {} : { token: TOKENS.viewer };
  const stream = await readStream(`http://${address}/api/v1/live${query}`, { ...own, headers });
  ends.defer(stream.close);
  return stream;
}

async function signedIn({ post }: TestOperator): Promise<Record<string, string>> {
  const began = await post("/session", { token: TOKENS.viewer }, { as: "nobody" });
  return { Cookie: String(began.headers["set-cookie"]).split(";")[0] ?? "" };
}

const toldOf = ({ events }: ReadStream, name: string) =>
  events.flatMap(({ event, data }) => (event === name && data !== undefined ? [data] : []));
const until = (stream: ReadStream, name: string, count = 1) =>
  eventually(`${count} times ${name}`, () => toldOf(stream, name).length >= count);

describe("a stream", () => {
  test("sends the deployment's state in the form of the overview, and again when it changes", async () => {
    const stream = await follow(await fixture.start({ liveTimes: QUICK }));
    expect(stream.headers).toMatchObject({
      ...{ "content-type": "text/event-stream", "cache-control": "no-store" },
      "content-security-policy": expect.stringContaining("default-src 'none'"),
    });
    await until(stream, "overview");
    const waiting = () => OverviewView.parse(toldOf(stream, "overview").at(-1)).queues[0]?.waiting;
    expect(waiting()).toBe(0);
    await createEnqueue(redis.partition)(aCall());
    await eventually("the call is told of", () => waiting() === 1);
    expect(toldOf(stream, "flow")).toEqual([]);
  });

  test("also sends the flow and the jobs on request, each only when it has changed", async () => {
    await createEnqueue(redis.partition)(aCall({ job_id: 3 }));
    const stream = await follow(await fixture.start({ liveTimes: { ...QUICK, everyMs: 20 } }), {
      query: "?flow=24h&job=7%2F3&jobs=true",
    });
    await until(stream, "overview", 5);
    expect(FlowView.parse(toldOf(stream, "flow")[0]).step_ms).toBe(300_000);
    const [first] = toldOf(stream, "jobs") as { jobs: unknown[] }[];
    expect(JobView.parse(first?.jobs[0])).toMatchObject({ job: "7/3", waiting: 1 });
    expect(toldOf(stream, "flow")).toHaveLength(1);
  });

  test("shares one reading with other streams, and nothing is read after all have ended", async () => {
    const service = await fixture.start({ liveTimes: { ...QUICK, everyMs: 3_600_000 } });
    const streams = [await follow(service), await follow(service), await follow(service)];
    for (const stream of streams) await until(stream, "overview");
    const [at, ...others] = streams.map((stream) => toldOf(stream, "overview")[0]?.["at"]);
    expect(others).toEqual([at, at]);
    for (const stream of streams) stream.close();
    await eventually("they are gone", () => service.liveStreams() === 0);
    const late = await follow(service);
    await until(late, "overview");
    expect(toldOf(late, "overview")[0]?.["at"]).not.toBe(at);
  });

  test("sends the flow of each job from one reading of all jobs", async () => {
    const reports = await startReports();
    for (const jobId of [3, 4, 4])
      reports.log.info("webhook.accepted", { path: "/a", jobId, replayed: false });
    await reports.flush();
    const buckets: string[] = [];
    proxy.onCommand = ([name, key = ""]) => {
      if (name?.toLowerCase() === "hgetall" && key.includes(":series:")) buckets.push(key);
      return undefined;
    };
    const service = await fixture.start({
      ...{ redisUrl: proxy.url, liveTimes: { ...QUICK, flowEveryMs: { "1h": 3_600_000, "24h": 3_600_000 } } },
    });
    const queries = ["?flow=1h", "?flow=1h&job=0%2F3", "?flow=1h&job=0%2F4", "?flow=1h&job=0%2F4"];
    const streams: ReadStream[] = [];
    for (const query of queries) streams.push(await follow(service, { query }));
    for (const stream of streams) await until(stream, "flow");
    const accepted = streams.map((stream) =>
      FlowView.parse(toldOf(stream, "flow")[0]).jobs.map((each) => [each.job, each.accepted]),
    );
    expect(accepted).toEqual([
      expect.arrayContaining([
        ["0/3", 1],
        ["0/4", 2],
      ]),
      [["0/3", 1]],
      [["0/4", 2]],
      [["0/4", 2]],
    ]);
    // The newest buckets are read again for the overview's last minute.
    const older = [...new Set(buckets)].sort().slice(0, 360);
    expect(older).toHaveLength(360);
    expect(buckets.filter((key) => older.includes(key))).toHaveLength(360);
  });
});

describe("the end of a stream", () => {
  test("comes with the end of its session at any replica", async () => {
    const [one, other] = [
      await fixture.start({ liveTimes: QUICK }),
      await fixture.start({ liveTimes: QUICK }),
    ];
    const headers = await signedIn(one);
    const [here, there] = [await follow(one, { headers }), await follow(other, { headers })];
    const kept = await follow(one, { headers: await signedIn(one) });
    await one.ask("DELETE", "/session", { as: "nobody", headers });
    await Promise.all([here.ended, there.ended]);
    await until(kept, "overview", toldOf(kept, "overview").length + 5);
  });

  test("comes at once at the replica where the session is ended", async () => {
    const service = await fixture.start({ liveTimes: { everyMs: 20, heartbeatMs: 3_600_000 } });
    const headers = await signedIn(service);
    const stream = await follow(service, { headers });
    await until(stream, "overview");
    await service.ask("DELETE", "/session", { as: "nobody", headers });
    await stream.ended;
  });

  test("comes when the session expires, and nothing is sent after that", async () => {
    let now = 1_800_000_000_000;
    const service = await fixture.start({
      ...{ clock: () => now, liveTimes: { everyMs: 20, heartbeatMs: 3_600_000 } },
    });
    const stream = await follow(service, { headers: await signedIn(service) });
    await until(stream, "overview");
    now += 14_400_000;
    await stream.ended;
    for (const { at } of toldOf(stream, "overview"))
      expect(Date.parse(String(at))).toBeLessThan(1_800_000_000_000 + 14_400_000);
  });

  test("comes when its replica stops, with a time to reconnect; a stream that begins then sends no data", async () => {
    const service = await fixture.start({ liveTimes: QUICK });
    const stream = await follow(service);
    service.drain();
    await stream.ended;
    expect(stream.events.at(-1)?.retry).toBeGreaterThanOrEqual(2000);
    const late = await follow(service);
    await late.ended;
    expect(late.events).toEqual([{ retry: expect.any(Number) }]);
  });
});

test("frees the slot of a client that disconnects while its session is checked", async () => {
  const service = await fixture.start({ redisUrl: proxy.url });
  const headers = await signedIn(service);
  let release = () => {};
  const until = new Promise<void>((resolve) => {
    release = resolve;
  });
  const asked = new Promise<void>((resolve) => {
    proxy.onCommand = ([name]) => {
      if (name?.toLowerCase() !== "exists") return undefined;
      proxy.onCommand = () => undefined;
      resolve();
      return { kind: "late-reply", until };
    };
  });
  const socket = connect(Number(service.address.split(":")[1]), "127.0.0.1");
  socket.on("error", () => {});
  socket.write(`GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\nCookie: ${headers["Cookie"]}\r\n\r\n`);
  await asked;
  socket.resetAndDestroy();
  await service.get("/openapi.json");
  release();
  // Redis answers in order, so the earlier check has been answered, too.
  expect((await service.get("/session", { as: "nobody", headers })).status).toBe(200);
  await eventually("it has no place", () => service.liveStreams() === 0);
});

test("a stream repeats that Redis is unavailable, and continues by itself afterwards", async () => {
  const stream = await follow(await fixture.start({ redisUrl: proxy.url, liveTimes: QUICK }));
  await until(stream, "overview");
  proxy.onCommand = () => ({ kind: "lose-command" });
  await until(stream, "unavailable", 3);
  expect(toldOf(stream, "unavailable")[0]).toMatchObject({
    ...{ of: "overview", status: 503, code: "queue.unavailable", detail: expect.any(String) },
  });
  const before = toldOf(stream, "overview").length;
  proxy.onCommand = () => undefined;
  await until(stream, "overview", before + 1);
});

onlyInLongRun(() => {
  test("a slow reader has no queue of events: when it reads again it gets the newest one, and never the earlier ones", async () => {
    const service = await fixture.start({ liveTimes: { ...QUICK, everyMs: 1 } });
    const enqueue = createEnqueue(redis.partition);
    await Promise.all(Array.from({ length: 300 }, (_, i) => enqueue(aCall({ job_id: i }))));
    const [slow, quick] = [
      await follow(service, { query: "?jobs=true" }),
      await follow(service, { query: "?jobs=true" }),
    ];
    await until(slow, "jobs");
    slow.pause();
    await until(quick, "jobs", 400);
    const newest = String(toldOf(quick, "overview").at(-1)?.["at"]);
    slow.resume();
    await eventually("the newest has come", () => String(toldOf(slow, "overview").at(-1)?.["at"]) >= newest);
    expect(toldOf(slow, "jobs").length).toBeLessThan(toldOf(quick, "jobs").length);
  });
});

test("HEAD starts no stream", async () => {
  const service = await fixture.start();
  const head = await service.ask("HEAD", "/api/v1/live");
  expect([head.status, head.headers["content-type"]]).toEqual([200, "text/event-stream"]);
  expect(service.liveStreams()).toBe(0);
});
