import { setTimeout as delay } from "node:timers/promises";
import type { Redis } from "ioredis";
import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { PREFIX } from "../../../shared/redis/keys.ts";
import { Partitioned, partitionOf } from "../../../shared/redis/partition.ts";
import type { ProcessKind } from "../../../shared/telemetry/processes/process.ts";
import { useFakeRunner } from "../../fixtures/fake-runner.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { keys, loginOf } from "../../fixtures/redis.ts";
import { useSentinels } from "../../fixtures/redis-topology.ts";
import { at } from "../../support/failover/topology.ts";
import { send } from "../../support/http.ts";

const PATH = "/hooks/job";
const JOB = "0/1";
const QUEUE = `webhook/${JOB}`;
const LOCK_MS = 3000;
/** One more than the number of crashes after which a call fails. */
const ROUNDS = 4;

const redis = useSentinels();
const runner = useFakeRunner();
const postern = usePostern();

function start(kind: ProcessKind, args: readonly string[] = []) {
  const place = { ...redis.place, durability: "replicated", min_replicas: 2 };
  postern.configure({
    postern: {
      drain_secs: 0,
      redis: { ...place, ...loginOf(kind) },
      runner: { url: runner.url, timeout_ms: 2000 },
      producer: { lock_ms: LOCK_MS },
    },
    webhooks: { endpoints: [{ path: PATH, job_id: 1, auth: "none" }] },
  });
  return postern.start([kind, ...args, "--ops-address", "127.0.0.1:0"]);
}

/** Pauses and resumes the job at this primary, without waiting for replicas. */
async function gateAt<Result>(
  port: number,
  work: (jobs: ReturnType<typeof openJobs>, client: Redis) => Promise<Result>,
) {
  return at(port, (client) => work(openJobs(new Partitioned([partitionOf(client, PREFIX)])), client));
}

const ACT = { at: 0, by: "a test", reason: "a test" };

test("a call whose take was not replicated in any of several failovers is sent once, as a first attempt without a crash", {
  timeout: 60_000 + ROUNDS * 60_000,
}, async () => {
  const webhooks = start("webhooks", ["--bind-address", "127.0.0.1:0"]);
  const producer = start("producer");
  const address = String((await webhooks.waitForEvent("service.started"))["address"]);
  await producer.waitForEvent("service.started");
  await gateAt((await redis.primary()).port, (jobs) => jobs.pause(JOB, ACT));
  const accepted = await eventually("it is accepted", async () => {
    const answer = await send(address, { path: PATH, body: "x" });
    return answer.status === 202 ? answer : undefined;
  });
  const id = String(accepted.json()["call_id"]);

  for (let round = 1; round <= ROUNDS; round++) {
    const old = await redis.primary();
    const replicas = redis.servers.filter(({ port }) => port !== old.port);
    await gateAt(old.port, async (jobs, client) => {
      const isTaken = async () => (await client.llen(keys.inQueue(QUEUE, "active"))) === 1;
      // A producer that has noticed the missing replicas takes no call. Then the test tries again.
      await eventually("it is taken", async () => {
        for (const { pid } of replicas) process.kill(pid, "SIGSTOP");
        await jobs.resume(JOB, ACT);
        await eventually("the producer takes it", isTaken, 3000).catch(() => {});
        await jobs.pause(JOB, ACT);
        if (await isTaken()) return true;
        for (const { pid } of replicas) process.kill(pid, "SIGCONT");
        await redis.untilSynced();
        return false;
      });
    });
    await delay(100);
    await old.kill("SIGKILL");
    // The replicas have received the take in their sockets. By the time one takes over, the call's lock has expired.
    await delay(LOCK_MS);
    for (const { pid } of replicas) process.kill(pid, "SIGCONT");
    await redis.untilTakenOver(old.port);
    await old.restart();
    await eventually("the call is given back", () => producer.events("call.released").length === round);
    await redis.untilSynced();
  }

  expect(runner.offers).toEqual([]);
  const { port } = await redis.primary();
  await gateAt(port, (jobs) => jobs.resume(JOB, ACT));
  await eventually("it is sent", () => runner.offers.length > 0);
  await eventually("its end is written", () =>
    at(port, async (client) => (await client.hget(keys.record(id), "st")) === "INJECTED"),
  );
  expect(runner.offers).toHaveLength(1);
  expect(await at(port, (client) => client.hget(keys.record(id), "unsure"))).toBeNull();
  expect(await at(port, (client) => client.llen(keys.attempts(id)))).toBe(0);
  expect(producer.events("call.lease_expired")).toEqual([]);
});
