import { beforeEach, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { randomCallId } from "../../../shared/call/call-id.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { openEndpoints } from "../../../shared/queue/endpoints.ts";
import { openIntents } from "../../../shared/queue/intents.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import type { JobLimits } from "../../../shared/queue/limits.ts";
import { connectForRequests, type Redis } from "../../../shared/redis/connect.ts";
import type { Partition, Partitions } from "../../../shared/redis/partition.ts";
import type { ProcessKind } from "../../../shared/telemetry/processes/process.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { asUser, denialsOf, useOwnRedis, useRedis } from "../../fixtures/redis.ts";
import { audited } from "../../support/audited.ts";
import { beforeEachScript } from "../../support/before-each-script.ts";
import { limitJobs } from "../../support/limit-jobs.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { partitionsOver } from "../../support/partitions.ts";

const COUNT = 4;
const LAST = COUNT - 1;
const INDEXES = [0, 1, 2, LAST];
const PATH = "/hooks/a";
/** The state of partition 0 in a process whose checks of it succeed. */
const USABLE = { firstCheck: Promise.resolve(), isUsable: true };
const why = { at: 1, by: "otto", reason: "its job is broken" };

const redis = useRedis();
const other = useOwnRedis();
const ends = useEnds();
const producers = useProducer({ redis });

/** An operator's connections, whose commands fail at once while Redis is away. */
let partitions: Partitions;
/** The URL of each partition, for processes that connect themselves. */
let urls: string[];

async function connect(url: string): Promise<Redis> {
  const client = connectForRequests({ url: new Secret(url) }, silentLogger);
  ends.defer(() => client.disconnect());
  await eventually("it is connected", () => client.status === "ready");
  return client;
}

/** Opens the same partitions with connections that have only the rights of this kind of process. */
async function asProcess(kind: ProcessKind): Promise<Partitions> {
  const clients = await Promise.all(urls.map((url) => connect(asUser(url, kind))));
  return partitions.map((each, index) => ({ ...each, redis: clients[index] as Redis }));
}

/** Opens the partitions, with the partition `elsewhere` on a server of its own. */
async function openWith(elsewhere: number): Promise<void> {
  const away = await connect(other.url);
  partitions = partitionsOver(redis.client, COUNT).map((each, index) =>
    index === elsewhere ? { ...each, redis: away } : each,
  );
  urls = INDEXES.map((index) => (index === elsewhere ? other : redis).url);
}

beforeEach(async () => {
  await other.server.restart();
  await other.client.flushall();
  await redis.client.flushall();
  await openWith(LAST);
});

const at = (index: number): Partition => partitions.all[index] as Partition;

async function back(index: number): Promise<void> {
  await other.server.restart();
  await eventually("it is connected again", () => at(index).redis.status === "ready");
}

/** Adds a call whose id belongs to the partition `index`. */
async function add(index: number, { job = 1, heldAt = "" } = {}): Promise<string> {
  let id = randomCallId();
  while (partitions.indexOf(id) !== index) id = randomCallId();
  await createEnqueue(at(index))(aCall({ id, job_id: job }), undefined, "small", heldAt);
  return id;
}

const addToAll = (options?: Parameters<typeof add>[1]) =>
  Promise.all(INDEXES.map((index) => add(index, options)));

const pausedIn = async (job = "7/1") => {
  const found = await Promise.all(
    partitions.all.map((each) => each.redis.hexists(each.keys.job(job), "paused")),
  );
  return INDEXES.filter((index) => found[index] === 1);
};

const waitingIn = (index: number) => at(index).redis.llen(at(index).keys.inQueue("webhook/7/1", "wait"));

/** The partitions of another operator. Its first script in partition 1 waits until `before` has ended. */
function delayed(before: () => Promise<void>): Partitions {
  let isFirst = true;
  const once = async () => {
    if (!isFirst) return;
    isFirst = false;
    await before();
  };
  const proxied = (client: Redis) => beforeEachScript(client, once);
  return partitions.map((each, index) => (index === 1 ? { ...each, redis: proxied(each.redis) } : each));
}

test("a pause applies in all partitions, with one line in the audit log, and a resume frees the calls of all", async () => {
  const jobs = openJobs(partitions);
  expect(await jobs.pause("7/1", why)).toEqual({ changed: true, unreached: [] });
  expect(await jobs.pause("7/1", why)).toEqual({ changed: false, unreached: [] });
  const paused = await addToAll();
  const { saw, log } = producers.start({ partitions: urls, inject: async () => {} });
  await addToAll({ job: 2 });
  await saw("call.injected", COUNT);
  const injected = () => paused.filter((id) => log.events.some(({ fields }) => fields["callId"] === id));
  expect(injected()).toEqual([]);
  expect(await jobs.resume("7/1", why)).toEqual({ changed: true, unreached: [] });
  await eventually("all are injected", () => injected().length === COUNT);
  expect((await audited(redis.client)).map(({ action }) => action)).toEqual(["pause", "resume"]);
});

test.each(sample(["callback", "callback/hooks.example.com"]))(
  "a pause of %s is copied to a partition and ends there",
  async (gate) => {
    const jobs = openJobs(partitions);
    await jobs.pause(gate, why);
    expect(await pausedIn(gate)).toEqual(INDEXES);
    const [, second] = partitions.all as [Partition, Partition];
    const queue = "callback/7/1/hooks.example.com";
    await second.redis.sadd(second.keys.queues, queue);
    await second.redis.sadd(second.keys.receiver("hooks.example.com"), queue);
    await jobs.resume(gate, why);
    expect(await pausedIn(gate)).toEqual([]);
    expect(await second.redis.zrange(second.keys.wake, "0", "-1")).toEqual([queue]);
    expect(await second.redis.smembers(second.keys.jobs)).toEqual([]);
  },
);

test("a partition that was away during a pause applies it before a call is taken from it", async () => {
  const kept = await add(LAST);
  await other.server.kill("SIGKILL");
  expect(await openJobs(partitions).pause("7/1", why)).toEqual({ changed: true, unreached: [LAST] });
  const { producer, saw, log, count } = producers.start({ partitions: urls, inject: async () => {} });
  await producer.firstCheck;
  await back(LAST);
  await add(LAST, { job: 2 });
  await saw("call.injected");
  expect(await pausedIn()).toEqual(INDEXES);
  expect(log.events.filter(({ fields }) => fields["callId"] === kept)).toEqual([]);
  await other.server.kill("SIGKILL");
  expect(await openJobs(partitions).resume("7/1", why)).toEqual({ changed: true, unreached: [LAST] });
  await back(LAST);
  await eventually("it is injected", () => count("call.injected") === 2);
});

test.each([
  ["pause", "resume", []],
  ["resume", "pause", INDEXES],
] as const)(
  "a %s that reaches a partition after a later %s changes nothing there",
  async (late, newer, paused) => {
    const jobs = openJobs(partitions);
    await jobs.pause("7/1", why);
    if (late === "pause") await jobs.resume("7/1", why);
    const overtaken = delayed(async () => {
      await jobs[newer]("7/1", why);
    });
    await openJobs(overtaken)[late]("7/1", why);
    expect(await pausedIn()).toEqual(paused);
  },
);

test("all partitions end up with the intents of partition 0, in any order of operators' and producers' steps", async () => {
  const jobs = INDEXES.map(() => openJobs(partitions));
  for (let round = 0; round < 10; round++) {
    await Promise.all(
      jobs.flatMap((each, i) => [
        each[Math.random() < 0.5 ? "pause" : "resume"](`7/${1 + (i % 2)}`, why),
        each.sync(i, USABLE),
      ]),
    );
    for (const job of ["7/1", "7/2"]) {
      const found = await pausedIn(job);
      expect(found).toEqual(found.includes(0) ? INDEXES : []);
    }
  }
});

onlyInLongRun(() => {
  test("while partition 0 is away, other partitions keep its last intents, and none is used before partition 0 was read once", async () => {
    await openWith(0);
    const known = openJobs(partitions);
    await openJobs(partitions).pause("7/1", why);
    await known.sync(1, USABLE);
    await other.server.kill("SIGKILL");
    await at(2).redis.del(at(2).keys.job("7/1"), at(2).keys.intents);
    await known.sync(2, USABLE);
    expect(await Promise.all([1, 2].map((i) => at(i).redis.hget(at(i).keys.job("7/1"), "reason")))).toEqual([
      why.reason,
      why.reason,
    ]);
    const unavailable = { code: "queue.unavailable" };
    await expect(openJobs(partitions).sync(2, USABLE)).rejects.toMatchObject(unavailable);

    await add(1, { job: 2 });
    const { log, saw, count } = producers.start({ partitions: urls, inject: async () => {} });
    await eventually("it is refused", () =>
      log.events.some(({ fields }) => /partition 0, which knows/.test(String(fields["reason"]))),
    );
    expect(count("call.injected")).toBe(0);
    await other.server.restart();
    await saw("call.injected");
  });
});

test("partition 0 is followed again after it has lost its newest writes, including later intents", async () => {
  const jobs = openJobs(partitions);
  await jobs.pause("7/1", why);
  const { keys } = partitions.control;
  await redis.client.del(keys.job("7/1"), keys.jobs);
  await redis.client.hset(keys.intents, "version", "1");
  await redis.client.set(keys.layout, "it is not empty");
  await openJobs(partitions).sync(1, USABLE);
  await openJobs(partitions).sync(2, USABLE);
  expect(await pausedIn()).toEqual([LAST]);
  await openJobs(partitions).pause("7/1", why);
  expect(await pausedIn()).toEqual(INDEXES);
});

onlyInLongRun(() => {
  test("an emptied or unusable partition 0 ends no pause and no hold in the others", async () => {
    const jobs = openJobs(partitions);
    await jobs.pause("7/1", why);
    await openEndpoints(partitions).set(PATH, "held", why);
    const gateway = openIntents(partitions);
    await gateway.sync(1, USABLE);
    const { keys } = partitions.control;
    const refused = { ...USABLE, isUsable: false };
    await redis.client.set(keys.layout, "another deployment's");
    await redis.client.del(keys.job("7/1"), keys.jobs, keys.intents, keys.endpoints);
    for (const index of [1, 2]) expect((await gateway.sync(index, refused)).settings).toHaveLength(1);
    await redis.client.del(keys.layout);
    for (const index of [1, 2]) await gateway.sync(index, USABLE);
    expect(await pausedIn()).toEqual([1, 2, LAST]);
    const held = await Promise.all(partitions.all.map((each) => each.redis.exists(each.keys.endpoints)));
    expect(held).toEqual([0, 1, 1, 1]);
  });
});

test("while partition 0 must not be used, intents that operators wrote to the others are known", async () => {
  const gateway = openIntents(partitions);
  await gateway.sync(1, USABLE);
  await openEndpoints(partitions).set(PATH, "disabled", why);
  const { settings } = await gateway.sync(1, { ...USABLE, isUsable: false });
  expect(settings.map(([path]) => path)).toEqual([PATH]);
});

test("the limits of a job are in partition 0, those of callbacks are divided, and both are removed", async () => {
  const jobs = openJobs(partitions);
  const limits = { concurrency: 10, rate: { max: 6, periodMs: 1000 } };
  await limitJobs(
    partitions,
    new Map<string, JobLimits>([
      ["7/1", limits],
      ["callback", { concurrency: 10 }],
      ["callback/a.example", { concurrency: 2 }],
    ]),
  );
  const gate = (job: string) =>
    Promise.all(partitions.all.map((each) => each.redis.hgetall(each.keys.job(job))));
  const same = (fields: object) => INDEXES.map(() => fields);
  const { limits: sharedOf } = partitions.control.keys;
  expect(await gate("7/1")).toEqual(same({ permit: "1" }));
  expect(await redis.client.hgetall(sharedOf("7/1"))).toEqual({
    ...{ concurrency: "10", max: "6", duration: "1000" },
  });
  expect(await gate("callback")).toEqual(same({ concurrency: "2" }));
  expect(await gate("callback/a.example")).toEqual(same({ concurrency: "1" }));
  expect((await jobs.gates()).get("7/1")).toMatchObject(limits);
  expect((await jobs.gates()).get("callback")).toMatchObject({ concurrency: 10 });

  await at(2).redis.del(at(2).keys.job("7/1"));
  await jobs.limitsIn.all[2]?.configure(new Map([["7/1", limits]]));
  expect(await gate("7/1")).toEqual(same({ permit: "1" }));
  await limitJobs(partitions, new Map());
  expect([await gate("7/1"), await gate("callback")]).toEqual([same({}), same({})]);
  expect(await redis.client.exists(sharedOf("7/1"), sharedOf("callback"))).toBe(0);
});

test("partition 0 has the limits of a job before any gate asks for permits", async () => {
  const { limitsIn, gates } = openJobs(partitions);
  await limitsIn.all[2]?.configure(new Map([["7/1", { concurrency: 3 }]]));
  expect(await at(2).redis.hgetall(at(2).keys.job("7/1"))).toEqual({ permit: "1" });
  expect((await gates(["7/1"])).get("7/1")).toMatchObject({ concurrency: 3 });
});

test("a throttle applies in each partition that can be reached", async () => {
  await other.server.kill("SIGKILL");
  await eventually("it is away", () => at(LAST).redis.status !== "ready");
  await openJobs(partitions).throttle("7/1", 60_000);
  const till = await Promise.all(
    [0, 1, 2].map((index) => at(index).redis.hget(at(index).keys.job("7/1"), "throttled")),
  );
  expect(till.map(Number).every((time) => time > Date.now() + 50_000)).toBe(true);
});

test("an endpoint holds its calls in all partitions, even in one that was away, and enabling it releases the calls of all", async () => {
  const endpoints = openEndpoints(partitions);
  await other.server.kill("SIGKILL");
  expect(await endpoints.set(PATH, "held", why)).toEqual({ changed: true, unreached: [LAST] });
  await back(LAST);
  const gateway = openIntents(await asProcess("webhooks"));
  await gateway.sync(LAST, USABLE);
  await addToAll({ heldAt: PATH });
  for (let i = 0; i < 150; i++) await add(LAST, { heldAt: PATH });
  expect(await endpoints.held([PATH])).toEqual([COUNT + 150]);
  await other.server.kill("SIGKILL");
  expect(await endpoints.set(PATH, "enabled", why)).toEqual({ changed: true, unreached: [LAST] });
  expect(await Promise.all([0, 1, 2].map(waitingIn))).toEqual([1, 1, 1]);
  await back(LAST);
  await eventually("a gateway has it followed", async () => {
    await gateway.sync(LAST, USABLE).catch(() => {});
    return (await waitingIn(LAST)) === 151;
  });
  expect(await endpoints.held([PATH])).toEqual([0]);
  const settings = await Promise.all(partitions.all.map((each) => each.redis.exists(each.keys.endpoints)));
  expect(settings).toEqual([0, 0, 0, 0]);
  expect(await denialsOf(other)).toEqual([]);
});

onlyInLongRun(() => {
  test("an interrupted release in a partition continues with the next reading of partition 0", async () => {
    const endpoints = openEndpoints(partitions);
    await endpoints.set(PATH, "held", why);
    for (let i = 0; i < 250; i++) await add(1, { heldAt: PATH });
    let sent = 0;
    const cut = partitions.map((each, index) =>
      index === 1
        ? {
            ...each,
            redis: beforeEachScript(each.redis, async () => {
              sent += 1;
              if (sent > 1) throw new Error("cut");
            }),
          }
        : each,
    );
    await expect(openEndpoints(cut).set(PATH, "enabled", why)).rejects.toThrow("cut");
    expect(await endpoints.held([PATH])).toEqual([150]);
    const later = await add(1, { heldAt: PATH });
    await openJobs(await asProcess("producer")).sync(1, USABLE);
    expect(await endpoints.held([PATH])).toEqual([0]);
    expect(await at(1).redis.lindex(at(1).keys.inQueue("webhook/7/1", "wait"), 0)).toBe(later);
  });

  test("no call is lost or held forever that comes while its endpoint is repeatedly held and enabled", async () => {
    const endpoints = openEndpoints(partitions);
    let isOver = false;
    let added = 0;
    const adding = INDEXES.map(async (index) => {
      for (; !isOver; added++) await add(index, { heldAt: PATH });
    });
    const another = openEndpoints(partitions);
    for (let i = 0; i < 30; i++) {
      await Promise.all([
        endpoints.set(PATH, "held", why),
        another.set(PATH, i % 2 ? "enabled" : "held", why),
      ]);
      await eventually("some are added", () => added > (i + 1) * 10);
      await endpoints.set(PATH, "enabled", why);
    }
    isOver = true;
    await Promise.all(adding);
    await endpoints.set(PATH, "enabled", why);
    const waiting = await Promise.all(INDEXES.map(waitingIn));
    expect(waiting.reduce((sum, count) => sum + count, 0)).toBe(added);
    expect(await endpoints.held([PATH])).toEqual([0]);
  });
});
