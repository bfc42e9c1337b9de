import { beforeEach, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { randomCallId } from "../../../shared/call/call-id.ts";
import { toJobCall } from "../../../shared/call/job-call.ts";
import type { OverviewView } from "../../../shared/console/overview/overview.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { beat } from "../../../shared/queue/heartbeat.ts";
import { createClaimData } from "../../../shared/redis/deployment.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { refusalOf, useOperator } from "../../fixtures/console.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { asUser, useOwnRedis, useRedis } from "../../fixtures/redis.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { partitionsOver } from "../../support/partitions.ts";

const COUNT = 4;
const LAST = COUNT - 1;

const redis = useRedis();
const ofLast = useOwnRedis();
const fixture = useOperator({ redis });
const ends = useEnds();

beforeEach(async () => {
  await ofLast.server.restart();
  await redis.client.flushdb();
  await ofLast.client.flushdb();
});

const partitionsHere = () =>
  partitionsOver(redis.client, COUNT).map((each, index) =>
    index === LAST ? { ...each, redis: ofLast.client } : each,
  );

const PER_PARTITION = 3;

/** Queues some calls in each partition. Resolves with their ids by partition. */
async function queueSome(): Promise<string[][]> {
  const partitions = partitionsHere();
  const enqueues = partitions.map((partition) => createEnqueue(partition));
  const ids: string[][] = partitions.all.map(() => []);
  while (ids.some((own) => own.length < PER_PARTITION)) {
    const id = randomCallId();
    const own = ids[partitions.indexOf(id)] as string[];
    if (own.length === PER_PARTITION) continue;
    own.push(id);
    const body = Buffer.from(id);
    const call = toJobCall({
      ...{ id, origin: "webhook", service_id: 7, job_id: 1, body, bodySha256: sha256Hex(body) },
      ...{ metadata: { "X-WEBHOOK-PATH": "/hooks/a" }, content_type: "text/plain", accepted_at: Date.now() },
      ...{ keep_delivered: undefined, traceparent: undefined },
    });
    await enqueues.of(id)(call);
  }
  return ids;
}

test("while one partition is unavailable the overview names it and shows the rest, lists fail with its name, and calls of other partitions are found", async () => {
  const ids = await queueSome();
  const service = await fixture.start({
    ...{ partitions: COUNT, lastPartitionUrl: asUser(ofLast.url, "operator") },
  });
  const overview = async () => (await service.get("/api/v1/overview")).json<OverviewView>();
  const waiting = ({ queues }: OverviewView) => queues.find(({ origin }) => origin === "webhook")?.waiting;
  const whole = await eventually("all can be used", async () => {
    const seen = await overview();
    return seen.partitions.every(({ reachable }) => reachable) ? seen : undefined;
  });
  expect(waiting(whole)).toBe(12);
  expect(whole.partitions.map((each) => each.waiting)).toEqual([3, 3, 3, 3]);
  expect(whole.partitions[LAST]?.address).toBe(new URL(ofLast.url).host);

  await ofLast.server.kill("SIGKILL");
  const part = await eventually("the last one is away", async () => {
    const seen = await overview();
    return seen.partitions[LAST]?.reachable === false ? seen : undefined;
  });
  expect(waiting(part)).toBe(9);
  expect(part.partitions.map(({ reachable }) => reachable)).toEqual([true, true, true, false]);
  expect(part.redis.problem).toMatch(/^partition 3 of 4 cannot be used: /);
  expect(service.readiness()).toMatchObject({
    ready: true,
    checks: {
      redis: "3 of 4 partitions can be used",
      partitions: [
        ...Array(LAST).fill({ redis: "none" }),
        { redis: expect.stringContaining("queue.unavailable") },
      ],
    },
  });
  for (const path of ["calls", "calls/facets", "failed", "failed/count", "queues", "audit"]) {
    const refused = await service.get(`/api/v1/${path}`);
    expect([path, ...refusalOf(refused)]).toEqual([path, 503, "queue.unavailable"]);
    expect(refused.json()["detail"]).toMatch(/^partition 3 of 4 cannot be used: /);
  }
  const [own = ""] = ids[LAST] ?? [];
  expect(refusalOf(await service.get(`/api/v1/calls/${own}`))).toEqual([503, "queue.unavailable"]);
  for (const id of ids.slice(0, LAST).flat()) {
    expect((await service.get(`/api/v1/calls/${id}`)).json()).toMatchObject({ call_id: id });
    expect((await service.get(`/api/v1/calls?id=${id.slice(0, 10)}`)).json()).toMatchObject({
      calls: [{ id }],
    });
  }

  await ofLast.server.restart();
  await eventually("it is back", async () => (await service.get("/api/v1/calls")).status === 200);
});

onlyInLongRun(() => {
  test("a server that holds the data of another partition is detected", async () => {
    await queueSome();
    const service = await fixture.start({
      ...{ partitions: COUNT, lastPartitionUrl: asUser(ofLast.url, "operator") },
    });
    await eventually("all can be used", async () => (await service.get("/api/v1/calls")).status === 200);
    const another = partitionsOver(ofLast.client, COUNT).all[1] as Partition;
    const last = partitionsOver(ofLast.client, COUNT).all[LAST] as Partition;
    await createClaimData(another, undefined)();
    await ofLast.client.rename(another.keys.layout, last.keys.layout);
    await eventually("lists are refused", async () => {
      const refused = await service.get("/api/v1/calls");
      return refused.status === 503 && String(refused.json()["detail"]).includes("makes it partition 3 of 4");
    });
  });

  test("the overview lists each producer that is alive in any partition, also while another partition is unavailable", async () => {
    await queueSome();
    const [, second, , last] = partitionsHere().all as [Partition, Partition, Partition, Partition];
    for (const partition of [second, last])
      ends.defer(beat(partition, { workerId: "a producer", clock: Date.now }).stop);
    const service = await fixture.start({
      ...{ partitions: COUNT, lastPartitionUrl: asUser(ofLast.url, "operator") },
    });
    const alive = async () => {
      const { workers } = (await service.get("/api/v1/overview")).json<OverviewView>();
      return workers.map(({ id }) => id);
    };
    await eventually("it is alive", async () => (await alive()).length > 0);
    expect(await alive()).toEqual(["a producer"]);
    await ofLast.server.kill("SIGKILL");
    expect(await alive()).toEqual(["a producer"]);
  });
});
