import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Table, writeConfig } from "../../../shared/config/config-tables.ts";
import { type Part, startPart } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { asUser, runnerKeys, useOwnRedis } from "../../fixtures/redis.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { tempDir } from "../../support/temp-dir.ts";

const ends = useEnds();

/** Starts `postern runner` with the example jobs. */
async function startProgram(redisUrl: string, own: Table = {}, env: NodeJS.ProcessEnv = {}): Promise<Part> {
  const configDir = join(tempDir(), "config");
  const runner = { url: "http://127.0.0.1:1", bind_address: "127.0.0.1:0", ...own };
  writeConfig(configDir, { postern: { redis: { url: asUser(redisUrl, "runner") }, runner } });
  const args = ["runner", "--config-dir", configDir, "--ops-address", "127.0.0.1:0"];
  const part = await startPart({ name: "runner", args, env: { ...process.env, ...env } });
  ends.defer(() => part.kill("SIGKILL"));
  return part;
}

const offer = ({ address }: Part, callId: string) =>
  send(address, { path: "/jobs/1", headers: { "Idempotency-Key": callId }, body: "x" });

/** Has the process write a heap snapshot, and counts the objects in it that have this name. */
async function countKept(part: Part, dir: string, name: string): Promise<number> {
  const before = readdirSync(dir).length;
  process.kill(part.process.pid, "SIGUSR2");
  const snapshot = await eventually("the snapshot is whole", () => {
    const files = readdirSync(dir).sort();
    return files.length > before ? parsed(readFileSync(join(dir, files.at(-1) ?? ""), "utf8")) : undefined;
  });
  const { node_fields: fields } = snapshot.snapshot.meta;
  const wanted = snapshot.strings.indexOf(name);
  const at = fields.indexOf("name");
  return snapshot.nodes.filter((value, i) => value === wanted && i % fields.length === at).length;
}

type HeapSnapshot = { snapshot: { meta: { node_fields: string[] } }; nodes: number[]; strings: string[] };

function parsed(text: string): HeapSnapshot | undefined {
  try {
    return JSON.parse(text) as HeapSnapshot;
  } catch {
    return undefined;
  }
}

describe("on a Redis that is away at first", () => {
  const redis = useOwnRedis();

  test("`postern runner` starts before Redis, takes a call when it is there, and ends with code 0 on SIGTERM", async () => {
    await redis.server.kill("SIGTERM");
    const part = await startProgram(redis.url);
    expect((await offer(part, "early")).status).toBe(429);
    await redis.server.restart();
    const late = await eventually("it takes a call", async () => {
      const answer = await offer(part, "late");
      return answer.status === 429 ? undefined : answer;
    });
    expect(late).toMatchObject({ status: 200, text: "x" });
    expect(await part.kill("SIGTERM")).toMatchObject({ code: 0 });
  });
});

onlyInLongRun(() => {
  describe("on a Redis that loses writes", () => {
    const redis = useOwnRedis(["--appendfsync", "everysec"]);

    test("`postern runner` with a Redis that loses writes ends with code 1 and says how to fix it", async () => {
      const part = await startProgram(redis.url);
      expect(await part.process.exit).toMatchObject({ code: 1 });
      const [failed] = part.process.events("service.failed");
      expect(failed?.["reason"]).toContain("appendfsync always");
    });
  });

  describe("with a Redis of its own", () => {
    const redis = useOwnRedis();

    test("`postern runner` uses its own Redis, and keeps data there as configured", async () => {
      const own = { redis: { url: asUser(redis.url, "runner") }, result_bytes_max: 1 };
      const part = await startProgram("redis://127.0.0.1:1", own);
      const first = await eventually("it takes a call", async () => {
        const answer = await offer(part, "k");
        return answer.status === 429 ? undefined : answer;
      });
      expect(first).toMatchObject({ status: 200, text: "x" });
      expect(await redis.client.hget(runnerKeys.call("k"), "st")).toBe("DONE");
      await send(part.address, { path: "/jobs/1", headers: { "Idempotency-Key": "large" }, body: "xx" });
      expect(await redis.client.exists(runnerKeys.answer("k"), runnerKeys.answer("large"))).toBe(1);
    });

    test("`postern runner` keeps no weak reference to the long calls that it has run", async () => {
      const dir = tempDir();
      const NODE_OPTIONS = `--heapsnapshot-signal=SIGUSR2 --diagnostic-dir=${dir}`;
      const part = await startProgram(redis.url, {}, { NODE_OPTIONS });
      await eventually("it takes a call", async () => (await offer(part, "early")).status === 200);
      const body = JSON.stringify({ steps: 1, ms_per_step: 0 });
      const run = async (name: string, count: number) => {
        const ids = Array.from({ length: count }, (_, i) => `${name}-${i}`);
        for (const id of ids)
          await send(part.address, { path: "/jobs/3", headers: { "Idempotency-Key": id }, body });
        await eventually("all have ended", async () => {
          const states = await Promise.all(ids.map((id) => redis.client.hget(runnerKeys.call(id), "st")));
          return states.every((state) => state === "DONE");
        });
      };
      await run("warm-up", 20);
      const before = await countKept(part, dir, "WeakRef");
      await run("call", 200);
      expect((await countKept(part, dir, "WeakRef")) - before).toBeLessThan(50);
    });
  });
});
