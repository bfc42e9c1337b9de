import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeConfig } from "../../shared/config/config-tables.ts";
import type { Part } from "../../shared/dev/process.ts";
import { untilReady } from "../../shared/dev/stack.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { useFakeRunner } from "../fixtures/fake-runner.ts";
import { useStack } from "../fixtures/stack.ts";
import { runHere } from "../services/cli/run-here.ts";
import { send } from "../support/http.ts";
import { tempDir } from "../support/temp-dir.ts";
import { untilDrained } from "./fleet/until-drained.ts";

/** Records the keys that a runner with its own database would remember. */
const runner = useFakeRunner();
const stack = useStack(() => ({
  endpoints: [{ path: "/hooks/a", job_id: 1, auth: "none", idempotency_header: "X-Delivery-Id" }],
  postern: { runner: { url: runner.url } },
  drainSecs: 0,
}));

async function deliver(id: string): Promise<string> {
  const [gateway] = stack.gateways as [Part];
  const headers = { "X-Delivery-Id": id };
  const answer = await send(gateway.address, { path: "/hooks/a", headers, body: `body of ${id}` });
  expect(answer.status).toBe(202);
  return String(answer.json()["call_id"]);
}

test("after an older copy is restored, calls that ran since and deliveries that are repeated reach the runner under the key that it knows", {
  timeout: 120_000,
}, async () => {
  const { redis } = stack;
  const [producer] = stack.producers as [Part];
  const files = join(redis.server.dir, "appendonlydir");
  const copy = join(tempDir(), "appendonlydir");

  await producer.kill("SIGTERM");
  const waiting = await deliver("waits at the time of the copy");
  await redis.client.config("SET", "auto-aof-rewrite-percentage", "0");
  cpSync(files, copy, { recursive: true });
  await producer.restart();
  const later = await deliver("comes after the copy");
  await eventually("both are sent", () => runner.offers.length >= 2);
  await untilDrained(redis, "webhook");

  expect(await stack.denials()).toEqual([]);
  await redis.server.kill("SIGKILL");
  rmSync(files, { recursive: true });
  cpSync(copy, files, { recursive: true });
  await redis.server.restart();
  const dir = tempDir();
  writeConfig(dir, { postern: { redis: { url: redis.url } } });
  const adopted = await runHere(["redis", "adopt", "--config-dir", dir, "--reason", "a restore", "--yes"]);
  expect(adopted.code).toBe(0);
  await Promise.all([...stack.gateways, producer].map(untilReady));
  expect(await deliver("comes after the copy")).toBe(later);
  await eventually("both are sent again", () => runner.offers.length >= 4);
  await untilDrained(redis, "webhook");

  const sent = runner.offers.map(({ headers, body }) => [headers["idempotency-key"], body.toString()]);
  const twice = (id: string, delivery: string) => [0, 1].map(() => [id, `body of ${delivery}`]);
  expect(sent.sort()).toEqual(
    [...twice(waiting, "waits at the time of the copy"), ...twice(later, "comes after the copy")].sort(),
  );
});
