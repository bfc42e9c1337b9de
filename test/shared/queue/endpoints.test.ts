import { beforeEach, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { openEndpoints } from "../../../shared/queue/endpoints.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { openRegistry, sumOfDepths } from "../../../shared/queue/registry.ts";
import { Partitioned } from "../../../shared/redis/partition.ts";
import { NO_POLL, useConsumers } from "../../fixtures/consumers.ts";
import { aCall } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { audited } from "../../support/audited.ts";
import { beforeEachScript } from "../../support/before-each-script.ts";

const redis = useRedis();
const consumers = useConsumers(redis);
const PATH = "/hooks/a";
const why = { at: 1, by: "otto", reason: "its job is broken" };

beforeEach(async () => {
  await redis.client.flushdb();
});

const endpoints = () => openEndpoints(redis.partitions);
const add = (id: string, heldAt?: string, idempotency?: Parameters<ReturnType<typeof createEnqueue>>[1]) =>
  createEnqueue(redis.partition)(aCall({ id }), idempotency, "small", heldAt);
const depth = async () => sumOfDepths(await openRegistry(redis.partition).depths());

test("the calls of a held endpoint wait while others of their job are delivered, and come in order once it is enabled", async () => {
  await endpoints().set(PATH, "held", why);
  for (const id of ["c_1", "c_2", "c_3"]) await add(id, PATH);
  await add("c_other");
  const consumer = await consumers.start({ slots: 1 });
  await consumer.took("c_other");
  expect(await depth()).toMatchObject({ waiting: 0, delayed: 0, held: 3 });
  expect(await endpoints().held([PATH])).toEqual([3]);
  expect(await openRegistry(redis.partition).find("c_1")).toMatchObject({ state: "held" });
  expect(await endpoints().set(PATH, "enabled", why)).toMatchObject({ changed: true });
  await consumer.took("c_3");
  expect(consumer.taken).toEqual(["c_other", "c_1", "c_2", "c_3"]);
  expect(await endpoints().settings()).toEqual(new Map());
});

test("a queue with only held calls is not due, and wakes a producer as soon as its endpoint is enabled", async () => {
  await endpoints().set(PATH, "held", why);
  await add("c_1", PATH);
  const consumer = await consumers.start({ pollMs: NO_POLL } as object);
  expect(await redis.client.zcard(keys.due)).toBe(0);
  await endpoints().set(PATH, "enabled", why);
  await consumer.took("c_1");
});

test("a held delivery that is sent again is the same call, and is held once even without a delivery id after a lost reply", async () => {
  await endpoints().set(PATH, "held", why);
  const claim = { by: "first", bodySha256: "hash", windowMs: 60_000 };
  expect(await add("c_1", PATH, claim)).toEqual({ kind: "new" });
  expect(await add("c_1", PATH, { ...claim, by: "second" })).toMatchObject({
    kind: "known",
    state: "QUEUED",
  });
  await add("c_2", PATH);
  await add("c_2", PATH);
  expect(await endpoints().held([PATH])).toEqual([2]);
});

test("a call is not held if its endpoint was enabled after its gateway last read the settings", async () => {
  await add("c_1", PATH);
  expect(await depth()).toMatchObject({ waiting: 1, held: 0 });
});

test("an interrupted release leaves the endpoint held, and the next release continues", async () => {
  await endpoints().set(PATH, "held", why);
  const ids = Array.from({ length: 250 }, (_, i) => `c_${String(i).padStart(3, "0")}`);
  for (const id of ids) await add(id, PATH);
  const partition = {
    ...redis.partition,
    redis: beforeEachScript(redis.client, async (sent) => {
      if (sent > 1) throw new Error("cut");
    }),
  };
  await expect(openEndpoints(new Partitioned([partition])).set(PATH, "enabled", why)).rejects.toThrow("cut");
  expect((await endpoints().settings()).get(PATH)?.state).toBe("held");
  expect(await endpoints().held([PATH])).toEqual([150]);
  await add("c_last", PATH);
  await endpoints().set(PATH, "enabled", why);
  const waiting = await redis.client.lrange(keys.inQueue("webhook/7/1", "wait"), 0, -1);
  expect(waiting.toReversed()).toEqual([...ids, "c_last"]);
  expect(await endpoints().settings()).toEqual(new Map());
});

test.each(["disabled", "held"] as const)(
  "an endpoint that is %s while its calls are released stays so, with the remaining calls",
  async (state) => {
    await endpoints().set(PATH, "held", why);
    for (let i = 0; i < 250; i += 1) await add(`c_${i}`, PATH);
    const partition = {
      ...redis.partition,
      redis: beforeEachScript(redis.client, async (sent) => {
        if (sent === 2) expect(await endpoints().set(PATH, state, why)).toMatchObject({ changed: true });
      }),
    };
    await openEndpoints(new Partitioned([partition])).set(PATH, "enabled", why);
    expect((await endpoints().settings()).get(PATH)?.state).toBe(state);
    expect(await endpoints().held([PATH])).toEqual([150]);
    const actions = (await audited(redis.client)).map(({ action }) => action);
    expect(actions).toEqual(["hold", "enable", state === "held" ? "hold" : "disable"]);
  },
);

test("each change writes one line to the audit log, even in a full Redis, and a repeat changes nothing", async () => {
  await add("c_0");
  await redis.client.config("SET", "maxmemory", 1);
  try {
    expect(await endpoints().set(PATH, "disabled", why)).toMatchObject({ changed: true });
    expect(await endpoints().set(PATH, "disabled", why)).toMatchObject({ changed: false });
    expect(await endpoints().set(PATH, "held", why)).toMatchObject({ changed: true });
    expect(await endpoints().set(PATH, "enabled", why)).toMatchObject({ changed: true });
    expect(await endpoints().set(PATH, "enabled", why)).toMatchObject({ changed: false });
  } finally {
    await redis.client.config("SET", "maxmemory", 0);
  }
  const lines = (await audited(redis.client)).map(({ action, path, by, reason }) => [
    action,
    path,
    by,
    reason,
  ]);
  expect(lines).toEqual(["disable", "hold", "enable"].map((action) => [action, PATH, "otto", why.reason]));
});

test("released calls of a paused job also wait for the end of the pause", async () => {
  await endpoints().set(PATH, "held", why);
  await add("c_1", PATH);
  await openJobs(redis.partitions).pause("7/1", why);
  await endpoints().set(PATH, "enabled", why);
  const consumer = await consumers.start();
  expect(await depth()).toMatchObject({ waiting: 1, held: 0 });
  await openJobs(redis.partitions).resume("7/1", why);
  await consumer.took("c_1");
});

test("a setting that cannot be parsed counts as disabled", async () => {
  await redis.client.hset(keys.endpoints, PATH, '{"state":"later"}');
  expect((await endpoints().settings()).get(PATH)?.state).toBe("disabled");
});
