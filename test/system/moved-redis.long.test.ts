import { join } from "node:path";
import { expect, test } from "vitest";
import { callIdFrom } from "../../shared/call/call-id.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { usePostern } from "../fixtures/postern.ts";
import { denialsOf, useOwnRedis } from "../fixtures/redis.ts";
import { send } from "../support/http.ts";
import { tempDir } from "../support/temp-dir.ts";
import { startDeployment } from "./deployment.ts";

const PATH = "/hooks/echo";
const [old, moved] = [useOwnRedis(), useOwnRedis()];
const postern = usePostern();

/** Performs the steps on Redis of "Move to another Redis server" in docs/backup.md. */
async function move(): Promise<void> {
  const host = "127.0.0.1";
  await moved.client.call("REPLICAOF", host, String(old.server.port));
  await eventually("the new server has a copy", async () =>
    (await moved.client.info("replication")).includes("master_link_status:up"),
  );
  await eventually("the old server counts it as a replica", async () =>
    (await old.client.info("replication")).includes("state=online"),
  );
  await old.client.call("FAILOVER", "TO", host, String(moved.server.port));
  await eventually("the new server takes writes", async () =>
    (await moved.client.info("replication")).includes("role:master"),
  );
  expect(await old.client.info("replication")).toContain("role:slave");
  await old.server.kill("SIGTERM");
}

test("a deployment that moves to another Redis server needs no `postern redis adopt`, loses no call, and runs none again", {
  timeout: 120_000,
}, async () => {
  const place = { state_file: join(tempDir(), "redis.json") };
  const before = await startDeployment(postern, { url: old.url, ...place });
  const done = await before.works("ends before the move");
  const { webhooks, producer } = before.processes;
  await producer.kill("SIGTERM");
  const body = "waits during the move";
  const waiting = callIdFrom(PATH, body, sha256Hex(Buffer.from(body)));
  const { address } = await webhooks.waitForEvent("service.started");
  const sent = send(String(address), { path: PATH, headers: { "X-Delivery-Id": body }, body });
  await eventually("the call is accepted", () => before.find(waiting));
  await Promise.all(Object.values(before.processes).map((process) => process.kill("SIGTERM")));
  expect((await sent).status).toBe(202);

  expect(await denialsOf(old)).toEqual([]);
  await move();
  const after = await startDeployment(postern, { url: moved.url, ...place });
  expect(await after.works("ends before the move")).toBe(done);
  expect(await after.works(body)).toBe(waiting);
  const { runner } = after.processes;
  expect(runner.events("job.finished").map(({ callId }) => callId)).toEqual([waiting]);
  expect(await denialsOf(moved)).toEqual([]);
});
