import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { createProducer } from "../../services/producer/producer.ts";
import { createWebhooksGateway } from "../../services/webhooks-gateway/gateway.ts";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { startRedis } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import type { ServedPart } from "../../shared/part/part.ts";
import { Secret } from "../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../shared/platform/log/logger.ts";
import { delay } from "../../shared/platform/time/clock.ts";
import { connectForWork } from "../../shared/redis/connect.ts";
import { newDeploymentId } from "../../shared/redis/deployment.ts";
import { LAYOUT } from "../../shared/redis/layout.ts";
import { useEnds } from "../fixtures/ends.ts";
import { CALLBACK_SECRET } from "../fixtures/receivers.ts";
import { keys, useOwnRedis } from "../fixtures/redis.ts";
import { runHere } from "../services/cli/run-here.ts";
import { send } from "../support/http.ts";
import { onlyInLongRun } from "../support/long-run.ts";
import { recordingLog } from "../support/recording-log.ts";
import { tempDir } from "../support/temp-dir.ts";

const redis = useOwnRedis();
const ends = useEnds();
const endpoint = { path: "/a", job_id: 1, auth: "none" as const, idempotency_header: "X-Id" };
/** Longer than the interval of one second at which a process checks Redis. */
const SEEN_MS = 1500;
const OLD_ID = "2026-01-01-shop";

beforeEach(() => redis.client.flushdb());

type Table = { deployment_id?: string; state_file?: string; url?: string; durability?: "relaxed" };

async function gateway(table: Table = {}) {
  const log = recordingLog();
  const postern = { redis: { url: redis.url, ...table } };
  const part = createWebhooksGateway({ postern, webhooks: { endpoints: [endpoint] }, log });
  ends.defer(() => part.close(100));
  const { address } = await part.listen("127.0.0.1:0");
  const deliver = async (id: string) =>
    (await send(address, { path: "/a", headers: { "X-Id": id }, body: id })).json();
  return { part, deliver, log };
}

const isReady = (part: Pick<ServedPart, "readiness">) =>
  eventually("it is ready", () => part.readiness().ready);
const stateOf = (part: Pick<ServedPart, "readiness">) => String(part.readiness().checks["redis"]);
const isRefused = (part: Pick<ServedPart, "readiness">, reason: RegExp) =>
  eventually(`it is refused: ${reason}`, () => !part.readiness().ready && reason.test(stateOf(part)));

/** Kills Redis, and starts it at the same port with these files instead of its own. */
async function restartedWith(files?: string): Promise<void> {
  await redis.server.kill("SIGKILL");
  rmSync(join(redis.server.dir, "appendonlydir"), { recursive: true, force: true });
  if (files !== undefined) cpSync(files, join(redis.server.dir, "appendonlydir"), { recursive: true });
  await redis.server.restart();
}

/** Returns a copy of Redis' files. */
function copied(): string {
  const copy = join(tempDir(), "appendonlydir");
  cpSync(join(redis.server.dir, "appendonlydir"), copy, { recursive: true });
  return copy;
}

function adopt(table: Table, ...more: string[]) {
  const configDir = tempDir();
  writeConfig(configDir, { postern: { redis: { url: redis.url, ...table } } });
  return runHere(["redis", "adopt", "--config-dir", configDir, "--reason", "a test", "--yes", ...more]);
}

test("a gateway and a producer refuse a Redis that comes back empty, and continue without a restart once the right one is back", async () => {
  const { part, deliver, log } = await gateway();
  const injected: string[] = [];
  const producer = createProducer({
    postern: { redis: { url: redis.url } },
    inject: async ({ body }) => void injected.push(body.toString()),
  });
  ends.defer(() => producer.close(100));
  await Promise.all([part.ready(), producer.ready()]);
  expect((await deliver("one"))["status"]).toBe("accepted");
  await eventually("it is injected", () => injected.length === 1);
  const files = copied();

  await restartedWith();
  await Promise.all([isRefused(part, /has lost the data of deployment/), isRefused(producer, /has lost/)]);
  expect(await deliver("two")).toMatchObject({ status: 503, code: "queue.wrong_redis" });
  expect(await redis.client.exists(keys.layout, keys.queues)).toBe(0);
  const alarms = () => log.events.filter(({ event }) => event === "redis.unusable");
  expect(alarms()).toHaveLength(1);
  expect(alarms()[0]?.fields).toMatchObject({
    code: "start.wrong_redis",
    reason: expect.stringContaining("postern redis adopt"),
  });

  await restartedWith(files);
  await Promise.all([isReady(part), isReady(producer)]);
  expect((await deliver("three"))["status"]).toBe("accepted");
  await eventually("it is injected", () => injected.includes("three"));
  expect(injected).toEqual(["one", "three"]);
});

test("an old copy is refused, none of its calls is sent, and a process that starts on it refuses it too", async () => {
  const { part, deliver } = await gateway();
  await part.ready();
  await deliver("waits in the copy");
  const files = copied();
  const injected: string[] = [];
  const produce = () =>
    createProducer({
      postern: { redis: { url: redis.url } },
      inject: async ({ body }) => void injected.push(body.toString()),
    });
  const producer = produce();
  ends.defer(() => producer.close(100));
  await producer.ready();
  await eventually("it is injected", () => injected.length === 1);
  await redis.client.hincrby(keys.deployment, "at", 1); // as a process's report does
  await delay(SEEN_MS);

  await restartedWith(files);
  const old =
    /holds an old copy of deployment .*: its last report is of .*, but a process has seen its report of/;
  await Promise.all([isRefused(part, old), isRefused(producer, old)]);
  const fresh = produce();
  ends.defer(() => fresh.close(100));
  await isRefused(fresh, old);
  await delay(2 * SEEN_MS); // a producer that takes calls has taken one by then
  expect(injected.filter((body) => body === "waits in the copy")).toHaveLength(1);

  expect((await adopt({})).code).toBe(0);
  await Promise.all([isReady(part), isReady(producer), isReady(fresh)]);
  await eventually("it is injected again", () => injected.length === 2);
});

test("another deployment's Redis is refused because of its id, and is not changed", async () => {
  const other = await startRedis({ env: process.env, dir: tempDir() });
  ends.defer(() => other.stop());
  const client = connectForWork({ url: new Secret(other.url) }, silentLogger);
  ends.defer(() => client.disconnect());
  // The cached depth of the queues is theirs, and expires within half a second.
  const keys = async () => (await client.keys("*")).filter((key) => !key.includes(":depth:")).toSorted();
  const theirs = await gateway({ url: other.url, deployment_id: newDeploymentId() });
  await theirs.part.ready();
  await theirs.deliver("a");
  const before = await keys();
  const ours = await gateway({ url: other.url, deployment_id: OLD_ID });
  const producer = createProducer({
    postern: {
      redis: { url: other.url, deployment_id: OLD_ID },
      callbacks: { secret: CALLBACK_SECRET },
    },
    inject: async () => expect.unreachable("their call is not ours"),
  });
  ends.defer(() => producer.close(100));
  const another = /holds the data of deployment .*, but must hold that of 2026-01-01-shop/;
  await Promise.all([isRefused(ours.part, another), isRefused(producer, another)]);
  expect(await ours.deliver("a")).toMatchObject({ code: "queue.wrong_redis" });
  await eventually(
    "Redis answers the producer's beats",
    () => producer.readiness().checks["beating"] === true,
  );
  expect(await keys()).toEqual(before);
  expect((await theirs.deliver("b"))["status"]).toBe("accepted");
});

test("an empty Redis is a first start for a new id, and an alarm for a known id until it is adopted", async () => {
  const first = await gateway({ deployment_id: newDeploymentId() });
  await first.part.ready();
  await first.part.close(100);
  await redis.client.flushdb();

  const { part, deliver } = await gateway({ deployment_id: OLD_ID });
  await isRefused(part, /Redis is empty, but must hold the data of deployment 2026-01-01-shop/);
  expect(await redis.client.exists(keys.deployment, keys.layout)).toBe(0);
  const unknown = await adopt({ deployment_id: OLD_ID });
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining("--since is required")]);
  const adopted = await adopt({ deployment_id: OLD_ID }, "--without-audit");
  expect([adopted.code, adopted.stdout]).toEqual([
    0,
    "adopted for deployment 2026-01-01-shop: its processes continue within seconds\n",
  ]);
  await isReady(part);
  expect((await deliver("a"))["status"]).toBe("accepted");
  const [[, line] = []] = await redis.client.xrange(keys.audit("acts"), "-", "+");
  expect(line).toEqual(expect.arrayContaining(["adopt", OLD_ID, "a test", "without audit"]));
});

test("data of a release without ids is accepted as this deployment's, and later not mistaken for another's copy", async () => {
  await redis.client.set(
    keys.layout,
    JSON.stringify({ layout: LAYOUT, release: "0.0.9", partition: { index: 0, count: 1 } }),
  );
  const { part } = await gateway({ deployment_id: OLD_ID });
  await part.ready();
  expect(await redis.client.hget(keys.deployment, "id")).toBe(OLD_ID);
});

onlyInLongRun(() => {
  test("the data of another deployment is adopted only if the operator names it", async () => {
    const id = newDeploymentId();
    const { part } = await gateway({ deployment_id: id });
    await part.ready();
    const refused = await adopt({ deployment_id: OLD_ID });
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining(`add --replace ${id}`)]);
    expect((await adopt({ deployment_id: OLD_ID }, "--replace", id)).code).toBe(0);
    await isRefused(part, /holds the data of deployment 2026-01-01-shop/);
    const ours = await gateway({ deployment_id: OLD_ID });
    await ours.part.ready();
  });

  test("an adoption requires a plausible start of the lost time", async () => {
    const future = new Date(Date.now() + 3_600_000).toISOString();
    await redis.client.hset(keys.deployment, { id: OLD_ID, at: Date.parse(future) });
    for (const [args, why] of [
      [[], `has a report of ${future}, in the future`],
      [["--since", future], "--since is in the future"],
    ] as const) {
      const refused = await adopt({}, ...args);
      expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(why)]);
    }
    expect(await redis.client.hkeys(keys.deployment)).toEqual(["id", "at"]);
    expect((await adopt({}, "--since", "1h")).code).toBe(0);
  });

  test("concurrent commands that adopt an empty Redis agree on its id", async () => {
    const adopted = await Promise.all([1, 2, 3].map(() => adopt({}, "--without-audit")));
    expect(adopted.map(({ code, stderr }) => [code, stderr])).toEqual(adopted.map(() => [0, ""]));
    expect(new Set(adopted.map(({ stdout }) => stdout)).size).toBe(1);
  });

  test("a state file warns a process that starts after the loss", async () => {
    const file = join(tempDir(), "seen.json");
    const before = await gateway({ state_file: file });
    await before.part.ready();
    const { id } = JSON.parse(readFileSync(file, "utf8"));
    expect(await redis.client.hget(keys.deployment, "id")).toBe(id);
    await before.part.close(100);

    await restartedWith();
    const { part } = await gateway({ state_file: file });
    await isRefused(part, RegExp(`has lost the data of deployment ${id}`));
    writeFileSync(file, "no JSON");
    expect(() =>
      createWebhooksGateway({
        postern: { redis: { url: redis.url, state_file: file } },
        webhooks: { endpoints: [endpoint] },
      }),
    ).toThrow(/state_file .* cannot be read/);
  });

  test("with durability relaxed, which accepts losses, an empty Redis is used as it is", async () => {
    const { part, deliver } = await gateway({ durability: "relaxed" });
    await part.ready();
    await restartedWith();
    await eventually("it is taken", async () => (await deliver("a"))["status"] === "accepted");
  });
});
