import { beforeEach, expect, test } from "vitest";
import { createEnqueue } from "../../../../services/webhooks-gateway/enqueue.ts";
import { randomCallId } from "../../../../shared/call/call-id.ts";
import type { OverviewView } from "../../../../shared/console/overview/overview.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { openJobs } from "../../../../shared/queue/jobs.ts";
import type { Partition, Partitions } from "../../../../shared/redis/partition.ts";
import { type TestOperator, TOKENS, useOperator } from "../../../fixtures/console.ts";
import { aCall } from "../../../fixtures/producer.ts";
import { asUser, useOwnRedis, useRedis } from "../../../fixtures/redis.ts";
import { limitJobs } from "../../../support/limit-jobs.ts";
import { partitionsOver } from "../../../support/partitions.ts";
import { runHere } from "../run-here.ts";

const COUNT = 4;
const LAST = COUNT - 1;

const redis = useRedis();
const ofLast = useOwnRedis();
const operators = useOperator({ redis });
let service: TestOperator;

function partitions(): Partitions {
  return partitionsOver(redis.client, COUNT).map((each, index) =>
    index === LAST ? { ...each, redis: ofLast.client } : each,
  );
}

/** Runs commands through the console, which has the same operations as the commands on Redis. */
const runThroughConsole = (args: readonly string[]) =>
  runHere([...args, "--config-dir", "/nowhere", "--operator", `http://${service.address}`], {
    POSTERN_OPERATOR_TOKEN: TOKENS.operator,
  });

beforeEach(async () => {
  await ofLast.server.restart();
  await ofLast.client.flushdb();
  await redis.client.flushdb();
  service = await operators.start({
    ...{ partitions: COUNT, lastPartitionUrl: asUser(ofLast.url, "operator") },
  });
  await seen(true);
});

const seen = (reachable: boolean) =>
  eventually("the console sees it", async () => {
    const { partitions } = (await service.get("/api/v1/overview")).json<OverviewView>();
    return partitions.at(LAST)?.reachable === reachable;
  });

async function lastGoes(): Promise<void> {
  await ofLast.server.kill("SIGKILL");
  await seen(false);
}

async function lastIsBack(): Promise<void> {
  await ofLast.server.restart();
  await seen(true);
}

/** Adds a call in each partition. */
async function addToAll(heldAt = ""): Promise<void> {
  for (const partition of partitions().all) {
    let id = randomCallId();
    while (partitions().indexOf(id) !== partition.index) id = randomCallId();
    await createEnqueue(partition)(aCall({ id }), undefined, "small", heldAt);
  }
}

test("postern jobs list and show sum the counts of all partitions, and have the limits and the pause of all", async () => {
  await addToAll();
  const jobs = openJobs(partitions());
  await limitJobs(partitions(), new Map([["7/1", { concurrency: 5 }]]));
  await jobs.pause("7/1", { at: 0, by: "a@b", reason: "it loops" });
  const listed = await runThroughConsole(["jobs", "list", "-o", "json"]);
  const row = {
    job: "7/1",
    waiting: 4,
    concurrency: 5,
    state: "paused",
    paused_partitions: { of: 4, paused: 4 },
  };
  expect(JSON.parse(listed.stdout)).toMatchObject(row);
  const [, second] = partitions().all as [Partition, Partition];
  await redis.client.hdel(second.keys.job("7/1"), "paused");
  const shown = await runThroughConsole(["jobs", "show", "7/1"]);
  expect(shown.stdout).toMatch(/by a@b: it loops \(in 3 of 4 partitions\)/);
});

test("pause and resume say which partitions they have reached, and a repeat reaches the rest", async () => {
  await addToAll();
  await lastGoes();
  const away = { partitions: { of: 4, unreached: [3] } };
  const paused = await runThroughConsole(["jobs", "pause", "7/1", "--reason", "it loops", "-o", "json"]);
  expect([paused.code, JSON.parse(paused.stderr).detail]).toEqual([
    1,
    "7/1 is paused in 3 of 4 partitions; partition 3 cannot be reached, and is paused before a call is taken from it",
  ]);
  expect(JSON.parse(paused.stdout)).toMatchObject({
    ...{ changed: true, job: { waiting: 3, paused_partitions: { of: 4, paused: 3 } }, ...away },
  });
  const listed = await runThroughConsole(["jobs", "list"]);
  expect([listed.code, listed.stderr]).toEqual([1, expect.stringContaining("partition 3 of 4")]);

  await lastIsBack();
  expect(await runThroughConsole(["jobs", "pause", "7/1", "--reason", "again"])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^7\/1 is already paused since .*: it loops\n$/),
  });
  expect(JSON.parse((await runThroughConsole(["jobs", "list", "-o", "json"])).stdout)).toMatchObject({
    paused_partitions: { of: 4, paused: 4 },
  });
  await lastGoes();
  expect(await runThroughConsole(["jobs", "resume", "7/1"])).toMatchObject({
    code: 1,
    stderr:
      "7/1 is resumed in 3 of 4 partitions; partition 3 cannot be reached, and is resumed when a producer can use it\n",
  });
});

test("postern jobs run-delayed runs the delayed calls of all reachable partitions, with one audit line", async () => {
  await addToAll();
  for (const { redis: at, keys } of partitions().all) {
    const id = (await at.lpop(keys.inQueue("webhook/7/1", "wait"))) ?? "";
    await at.zadd(keys.inQueue("webhook/7/1", "delayed"), (Date.now() + 3_600_000) * 0x1000, id);
  }
  await lastGoes();
  const some = await runThroughConsole(["jobs", "run-delayed", "7/1"]);
  expect([some.code, some.stderr]).toEqual([
    1,
    "7/1: 3 delayed calls can run now in 3 of 4 partitions; partition 3 cannot be reached, and is left out\n",
  ]);
  await lastIsBack();
  expect(await runThroughConsole(["jobs", "run-delayed", "7/1"])).toMatchObject({
    ...{ code: 0, stdout: "7/1: 1 delayed call can run now\n" },
  });
  const lines = await Promise.all(partitions().all.map(({ redis: at, keys }) => at.xlen(keys.audit("acts"))));
  expect(lines).toEqual([1, 0, 0, 1]);
});

test("postern endpoints hold and enable say which partitions they have reached, and so does the console", async () => {
  const set = (state: string) =>
    runThroughConsole(["endpoints", state, "/a", ...(state === "hold" ? ["--reason", "broken"] : [])]);
  expect(await set("hold")).toMatchObject({ code: 0 });
  await addToAll("/a");
  await lastGoes();
  const enabled = await set("enable");
  expect([enabled.code, enabled.stderr]).toEqual([
    1,
    "/a: enabled at all gateways within 2 seconds in 3 of 4 partitions; partition 3 cannot be reached, and is updated when a producer or a gateway can use it; 3 held calls released\n",
  ]);
  await lastIsBack();
  const answer = await service.post("/api/v1/endpoints/state", { path: "/a", state: "enabled", reason: "x" });
  expect(answer.json()).toEqual({
    ...{ path: "/a", state: "enabled", changed: false, held: 1, partitions: { of: 4, unreached: [] } },
  });
  const waiting = partitions().all.map(({ redis: at, keys }) => at.llen(keys.inQueue("webhook/7/1", "wait")));
  expect(await Promise.all(waiting)).toEqual([1, 1, 1, 1]);
});

/** Makes the last partition deny the console this command. */
async function lastDenies(command: string): Promise<void> {
  await ofLast.client.acl("SETUSER", "operator", `-${command}`);
}

test.each(["evalsha", "hexists", "smembers"])(
  "a pause counts as set if only a partition that denies %s is missing",
  async (command) => {
    await addToAll();
    await lastDenies(command);
    const paused = await runThroughConsole(["jobs", "pause", "7/1", "--reason", "it loops", "-o", "json"]);
    expect(JSON.parse(paused.stderr).detail).toMatch(
      /^7\/1 is paused in 3 of 4 partitions; partition 3 cannot be reached/,
    );
    expect(JSON.parse(paused.stdout)).toMatchObject({
      ...{ changed: true, partitions: { of: 4, unreached: [3] } },
      job: { state: "paused", waiting: 3, paused_partitions: { of: 4, paused: 3 } },
    });
  },
);

test("a hold counts as set, and delayed calls run, if only a partition that denies scripts is missing", async () => {
  await addToAll();
  await lastDenies("evalsha");
  const held = await runThroughConsole(["endpoints", "hold", "/a", "--reason", "broken"]);
  expect([held.code, held.stderr]).toEqual([
    1,
    expect.stringContaining("/a: held at all gateways within 2 seconds in 3 of 4 partitions; partition 3"),
  ]);
  const run = await runThroughConsole(["jobs", "run-delayed", "7/1"]);
  expect([run.code, run.stderr]).toEqual([1, expect.stringContaining("in 3 of 4 partitions; partition 3")]);
});
