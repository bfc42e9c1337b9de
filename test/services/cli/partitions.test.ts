import { expect, test } from "vitest";
import { randomCallId } from "../../../shared/call/call-id.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { openEndpoints } from "../../../shared/queue/endpoints.ts";
import { openIntents } from "../../../shared/queue/intents.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { createClaimData, Deployment, newDeploymentId } from "../../../shared/redis/deployment.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { problemOf, usePostern } from "../../fixtures/postern.ts";
import { asUser, useRedis } from "../../fixtures/redis.ts";
import { audited } from "../../support/audited.ts";
import { sample } from "../../support/long-run.ts";
import { partitionsOver } from "../../support/partitions.ts";
import { runHereWith } from "./run-here.ts";

const COUNT = 4;
const LAST = COUNT - 1;

const ID = newDeploymentId();

const redis = useRedis();
const calls = useFailedCalls({ redis, partitions: COUNT });
const postern = usePostern(() => ({
  postern: { redis: { url: asUser(redis.url, "operator"), deployment_id: ID, partitions: COUNT } },
}));
const here = runHereWith(postern);
const partitions = () => partitionsOver(redis.client, COUNT).all;

const idsOf = () => Promise.all(partitions().map(({ keys }) => redis.client.hget(keys.deployment, "id")));
const ADOPT = ["redis", "adopt", "--yes", "--reason", "disk lost"];

test("postern redis adopt adopts every partition, with one audit line that describes the data of each", async () => {
  const [, second, third] = partitions();
  await redis.client.hset(second!.keys.deployment, "id", ID, "at", "1767225600000");
  await redis.client.hset(third!.keys.deployment, "id", ID);
  expect(await here([...ADOPT, "--without-audit"])).toMatchObject({ code: 0 });
  expect(await idsOf()).toEqual(Array.from({ length: COUNT }, () => ID));
  expect(await audited(redis.client)).toMatchObject([
    {
      ...{ action: "adopt", deployment: ID, reason: "disk lost" },
      selection:
        "without audit; partition 0 was empty, partition 1 had a report of 2026-01-01T00:00:00.000Z, " +
        "partition 2 had no report, partition 3 was empty",
    },
  ]);
});

test("postern redis adopt gives an emptied partition 0 the pauses and holds of the partition with the newest change", async () => {
  const each = partitionsOver(redis.client, COUNT);
  const why = { at: 1, by: "otto", reason: "its job is broken" };
  for (const partition of each.all)
    await createClaimData(partition, new Deployment({ id: ID }, silentLogger, each.control))();
  await openJobs(each).pause("7/1", why);
  await openEndpoints(each).set("/a", "held", why);
  const { keys } = each.control;
  const older = each.all[1]?.keys.intents ?? "";
  await redis.client.hincrby(older, "version", "-1");
  await redis.client.del(await redis.client.keys(`${each.control.prefix}:*`));
  await redis.client.hset(keys.deployment, "id", ID); // a process that has seen newer data writes the id
  const adopted = await here([...ADOPT, "--without-audit"]);
  expect(adopted).toMatchObject({
    ...{ code: 0, stdout: expect.stringContaining("pauses and holds are as partition 2 has them") },
  });
  await createClaimData(each.control, new Deployment({ id: ID }, silentLogger, each.control))();
  for (const index of [1, 2, LAST])
    await openIntents(each).sync(index, { firstCheck: Promise.resolve(), isUsable: true });
  const held = await Promise.all(each.all.map((one) => redis.client.hexists(one.keys.endpoints, "/a")));
  expect(held).toEqual([1, 1, 1, 1]);
  expect((await openJobs(each).gates()).get("7/1")).toMatchObject({ pausedBy: "otto", reason: why.reason });
  expect(await openJobs(each).countPausedPartitions(["7/1"])).toEqual(new Map([["7/1", COUNT]]));
});

test("after postern redis adopt payments count as unaudited since the earliest of the last reports, and without a report --since is needed", async () => {
  for (const [index, { keys }] of partitions().entries())
    await redis.client.hset(
      keys.deployment,
      "id",
      ID,
      "at",
      String(1767225600000 + 60_000 * (COUNT - index)),
    );
  expect((await here(ADOPT)).code).toBe(0);
  const unaudited = await redis.client.hget(partitions()[0]!.keys.deployment, "unaudited");
  expect(unaudited).toBe(String(1767225600000 + 60_000));
  await redis.client.del(partitions()[2]!.keys.deployment);
  const refused = await here(ADOPT);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("partition 2 has no report")]);
});

test("postern redis adopt changes nothing if a partition has another deployment's data", async () => {
  await redis.client.hset(partitions()[0]!.keys.deployment, "id", ID);
  await redis.client.hset(partitions()[2]!.keys.deployment, "id", "dep_other");
  const before = await idsOf();
  const refused = await here([...ADOPT, "--without-audit"]);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain("Partition 2 of 4 holds the data of deployment dep_other");
  expect(await idsOf()).toEqual(before);
  expect(await audited(redis.client)).toEqual([]);
});

test("the status lists the partitions, and lists have the calls of all", async () => {
  const ids = await failSome();
  const listed = (await here(["failed", "list", "-o", "name"])).stdout.trim().split("\n");
  expect(listed.toSorted()).toEqual(ids.toSorted());
  const { stdout } = await here(["status"], {}, { columns: 200 });
  const [header, ...rows] = (stdout.split("partitions:\n")[1] ?? "").split("\n");
  expect(header).toMatch(/^PARTITION +ADDRESS/);
  const { host } = new URL(redis.url);
  expect(rows.slice(0, COUNT).map((row) => row.trim().split(/ +/).slice(0, 2))).toEqual(
    Array.from({ length: COUNT }, (_, index) => [String(index), host]),
  );
});

const urlOfOperator = () => asUser(redis.url, "operator");

/**
 * Checks that the status names the last partition, that lists fail with its name, and that calls of other partitions
 * are shown.
 */
async function expectLastPartitionMissing(
  failed: readonly string[],
  code: string,
  reason: string,
): Promise<void> {
  const ofFirst = failed.filter((id) => partitionsOver(redis.client, COUNT).indexOf(id) === 0);
  const problem = `partition 3 of 4 cannot be used: ${reason}`;
  const part = await here(["status", "-o", "json"]);
  expect(part.code).toBe(1);
  expect(JSON.parse(part.stdout)).toMatchObject({
    partitions: [...Array.from({ length: LAST }, () => ({ reachable: true })), { reachable: false }],
    redis: { problem: expect.stringMatching(new RegExp(`^${problem}`)) },
  });
  expect((await here(["calls", "show", ofFirst[0] ?? ""])).code).toBe(0);
  const refused = await here(["failed", "list", "-o", "json"]);
  expect(problemOf(refused)).toMatchObject({ code, detail: expect.stringContaining(problem) });
}

/** Makes failed calls, at least one of them in partition 0. */
function failSome(): Promise<string[]> {
  let id = randomCallId();
  while (partitionsOver(redis.client, COUNT).indexOf(id) !== 0) id = randomCallId();
  return calls.fail([{ id }, ...Array.from({ length: 11 }, () => ({}))]);
}

const AT_URLS: [what: string, code: string, reason: string, urlOfLast: () => string][] = [
  ["away", "queue.unavailable", "Redis at 127.0.0.1:1 cannot be reached", () => "redis://127.0.0.1:1"],
  [
    "denied",
    "queue.denied",
    "Redis denies the user or the password",
    () => urlOfOperator().replace(/:[^:@]*@/, ":wrong@"),
  ],
];

test.each(sample(AT_URLS))(
  "with one partition %s, commands name it and do everything that needs no call of it",
  async (_, code, reason, urlOfLast) => {
    const ids = await failSome();
    const url = urlOfOperator();
    const places = [url, `${url}/1`, `${url}/2`, urlOfLast()].map((each) => ({ url: each }));
    postern.configure({ postern: { redis: { deployment_id: ID, partitions: places } } });
    await expectLastPartitionMissing(ids, code, reason);
    await redis.client.acl("LOG", "RESET");
  },
  30_000,
);

const SPOILT: [what: string, code: string, reason: string, spoil: (last: Partition) => Promise<unknown>][] = [
  [
    "emptied",
    "start.wrong_redis",
    `Redis is empty, but must hold the data of deployment ${ID}`,
    ({ keys }) => redis.client.del(keys.layout, keys.deployment),
  ],
  [
    "old",
    "start.wrong_redis",
    `Redis holds an old copy of deployment ${ID}`,
    ({ keys }) => redis.client.hset(keys.deployment, "expects", String(Date.now() + 60_000)),
  ],
  [
    "of another deployment",
    "start.wrong_redis",
    "Redis holds the data of deployment dep_other",
    ({ keys }) => redis.client.hset(keys.deployment, "id", "dep_other"),
  ],
  [
    "of another layout",
    "start.layout_mismatch",
    "Redis holds keys of an unknown layout",
    ({ keys }) => redis.client.set(keys.layout, "{}"),
  ],
];

test.each(sample(SPOILT))(
  "with one partition that is %s, commands name it and do everything that needs no call of it",
  async (_, code, reason, spoil) => {
    const ids = await failSome();
    const each = partitionsOver(redis.client, COUNT);
    for (const partition of each.all)
      await createClaimData(partition, new Deployment({ id: ID }, silentLogger, each.control))();
    await expect.poll(() => redis.client.scard(each.control.keys.partitions)).toBe(LAST);
    await spoil(each.at(LAST));
    await expectLastPartitionMissing(ids, code, reason);
  },
);
