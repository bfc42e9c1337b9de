import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeConfig } from "../../shared/config/config-tables.ts";
import type { Part } from "../../shared/dev/process.ts";
import { untilReady } from "../../shared/dev/stack.ts";
import { type OwnRedis, useOwnRedis } from "../fixtures/redis.ts";
import { useStack } from "../fixtures/stack.ts";
import { runHere } from "../services/cli/run-here.ts";
import { send } from "../support/http.ts";
import { tempDir } from "../support/temp-dir.ts";
import { untilDrained } from "./fleet/until-drained.ts";

const ofRunner = useOwnRedis();
const stack = useStack(() => ({
  endpoints: [
    { path: "/with-id", job_id: 1, auth: "none", idempotency_header: "X-Delivery-Id" },
    { path: "/without-id", job_id: 1, auth: "none" },
  ],
  postern: { runner: { redis: { url: ofRunner.url } } },
  drainSecs: 0,
}));

async function deliver(path: string, id: string): Promise<string> {
  const [gateway] = stack.gateways as [Part];
  const answer = await send(gateway.address, { path, headers: { "X-Delivery-Id": id }, body: id });
  expect(answer.status).toBe(202);
  return String(answer.json()["call_id"]);
}

const filesOf = ({ server }: OwnRedis) => join(server.dir, "appendonlydir");

async function backup(redis: OwnRedis): Promise<string> {
  const copy = join(tempDir(), "appendonlydir");
  await redis.client.config("SET", "auto-aof-rewrite-percentage", "0");
  cpSync(filesOf(redis), copy, { recursive: true });
  return copy;
}

async function restore(redis: OwnRedis, copy: string): Promise<void> {
  await redis.server.kill("SIGKILL");
  rmSync(filesOf(redis), { recursive: true });
  cpSync(copy, filesOf(redis), { recursive: true });
  await redis.server.restart();
}

/** Performs the steps of "Restore" in docs/backup.md, except those about payments. */
async function restoreQueues(copy: string, since: string): Promise<void> {
  const { redis, gateways, producers } = stack;
  const parts = [...gateways, ...producers];
  await Promise.all(parts.map((part) => part.kill("SIGTERM")));
  expect(await stack.denials()).toEqual([]);
  await restore(redis, copy);
  const dir = tempDir();
  writeConfig(dir, { postern: { redis: { url: redis.url } } });
  const adopt = ["redis", "adopt", "--config-dir", dir, "--since", since, "--reason", "a restore", "--yes"];
  expect(await runHere(adopt)).toMatchObject({ code: 0 });
  await Promise.all(parts.map((part) => part.restart()));
  await Promise.all(parts.map(untilReady));
}

test("after the queues are restored no call runs twice if the runner's own Redis was not restored, and calls run again if it was", {
  timeout: 120_000,
}, async () => {
  const { redis, runner } = stack;
  const [producer] = stack.producers as [Part];
  await producer.kill("SIGTERM");
  const waiting = await deliver("/with-id", "waits at the time of the copy");
  const since = new Date().toISOString();
  const [copy, copyOfRunner] = [await backup(redis), await backup(ofRunner)];
  await producer.restart();
  const later = await deliver("/with-id", "comes after the copy");
  const unnamed = await deliver("/without-id", "has no delivery id");
  await untilDrained(redis, "webhook");
  expect(stack.effectsOf([waiting, later, unnamed])).toEqual([1, 1, 1]);

  await restoreQueues(copy, since);
  expect(await deliver("/with-id", "comes after the copy")).toBe(later);
  const again = await deliver("/without-id", "has no delivery id");
  await untilDrained(redis, "webhook");
  expect(again).not.toBe(unnamed);
  expect(stack.effectsOf([waiting, later, unnamed, again])).toEqual([1, 1, 1, 1]);

  await runner.kill("SIGTERM");
  await restore(ofRunner, copyOfRunner);
  await runner.restart();
  await restoreQueues(copy, since);
  await deliver("/with-id", "comes after the copy");
  await untilDrained(redis, "webhook");
  expect(stack.effectsOf([waiting, later, unnamed, again])).toEqual([2, 2, 1, 1]);
});
