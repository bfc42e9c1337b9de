import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Table, writeConfig } from "../../../shared/config/config-tables.ts";
import { type Part, startPart } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { runnerKeys } from "../../../shared/redis/keys.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useOwnRedis } from "../../fixtures/redis.ts";
import { send } from "../../support/http.ts";
import { tempDir } from "../../support/temp-dir.ts";

const ends = useEnds();

/** `postern runner`, with the example jobs. */
async function startProgram(redisUrl: string, own: Table = {}): Promise<Part> {
  const configDir = join(tempDir(), "config");
  const runner = { url: "http://127.0.0.1:1", bind_address: "127.0.0.1:0", ...own };
  writeConfig(configDir, { postern: { redis: { url: redisUrl }, runner } });
  const args = ["runner", "--config-dir", configDir];
  const part = await startPart({ name: "runner", args, env: process.env });
  ends.defer(() => part.kill("SIGKILL"));
  return part;
}

const offer = ({ address }: Part, callId: string) =>
  send(address, { path: "/jobs/1", headers: { "Idempotency-Key": callId }, body: "x" });

describe("on a Redis that is away at first", () => {
  const redis = useOwnRedis();

  test("`postern runner` starts before Redis, takes a call when it is there, and ends with code 0 on SIGTERM", async () => {
    await redis.server.kill("SIGTERM");
    const part = await startProgram(redis.url);
    expect((await offer(part, "early")).status).toBe(503);
    await redis.server.restart();
    const late = await eventually("it takes a call", async () => {
      const answer = await offer(part, "late");
      return answer.status === 503 ? undefined : answer;
    });
    expect(late).toMatchObject({ status: 200, text: "x" });
    expect(await part.kill("SIGTERM")).toMatchObject({ code: 0 });
  });
});

describe("on a Redis that loses writes", () => {
  const redis = useOwnRedis(["--appendfsync", "everysec"]);

  test("`postern runner` with a Redis that loses writes ends with code 1 and says what to do", async () => {
    const part = await startProgram(redis.url);
    expect(await part.process.exit).toMatchObject({ code: 1 });
    const [failed] = part.process.events("service.failed");
    expect(failed?.["reason"]).toContain("appendfsync always");
  });
});

describe("with a Redis of its own", () => {
  const redis = useOwnRedis();

  test("`postern runner` uses its own Redis, and keeps there what its settings say", async () => {
    const own = { redis: { url: redis.url }, result_bytes_max: 1 };
    const part = await startProgram("redis://127.0.0.1:1", own);
    const first = await eventually("it takes a call", async () => {
      const answer = await offer(part, "k");
      return answer.status === 503 ? undefined : answer;
    });
    expect(first).toMatchObject({ status: 200, text: "x" });
    expect(await redis.client.hget(runnerKeys.call("k"), "st")).toBe("DONE");
    await send(part.address, { path: "/jobs/1", headers: { "Idempotency-Key": "large" }, body: "xx" });
    expect(await redis.client.exists(runnerKeys.answer("k"), runnerKeys.answer("large"))).toBe(1);
  });
});
