import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import { type Part, startPart } from "../../shared/dev/process.ts";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { readEffects } from "../support/effects.ts";
import { type Answer, send } from "../support/http.ts";
import { tempDir } from "../support/temp-dir.ts";

const effectsFile = join(tempDir(), "effects.jsonl");
const entry = [
  "--import",
  import.meta.resolve("tsx"),
  fileURLToPath(new URL("crash-runner.ts", import.meta.url)),
];

let redis: PrivateRedis;
const parts: Part[] = [];
beforeAll(async () => {
  redis = await startRedis({ env: process.env });
});
afterEach(async () => {
  for (const part of parts.splice(0)) await part.kill("SIGKILL");
});
afterAll(() => redis.stop());

async function startRunner(failpoint: string): Promise<Part> {
  const args = [redis.url, `127.0.0.1:${await freePort()}`];
  const env = { ...process.env, EFFECTS_FILE: effectsFile, POSTERN_FAILPOINT: failpoint };
  const part = await startPart({ name: "runner", entry, args, env });
  parts.push(part);
  await isReady(part);
  return part;
}

function isReady({ address }: Part): Promise<unknown> {
  const ask = () => send(address, { method: "GET", path: "/readyz" });
  return eventually("the runner is ready", async () => (await ask()).status === 200);
}

function offer({ address }: Part, job: number, callId: string): Promise<Answer> {
  return send(address, { path: `/jobs/${job}`, headers: { "Idempotency-Key": callId }, body: "x" });
}

const effectsOf = (callId: string) =>
  readEffects(effectsFile).filter((effect) => effect.callId === callId).length;

/** Killed while the handler may have done its work and the store does not know: the one stated exception. */
const ONCE = 1;
const TWICE = 2;

test.each([
  ["runner.after_begin", 1, 200, ONCE],
  ["runner.in_handler", 1, 200, TWICE],
  ["runner.after_handler", 1, 200, TWICE],
  ["runner.after_remembered", 1, 200, ONCE],
  ["runner.after_answer", 1, 200, ONCE],
  ["runner.after_begin", 2, 202, ONCE],
  ["runner.after_stored", 2, 202, ONCE],
  ["runner.in_handler", 2, 202, TWICE],
  ["runner.after_remembered", 2, 202, ONCE],
])(
  "killed at %s of job %i, the call offered again is %i and has run %i times",
  async (point, job, status, runs) => {
    const callId = `${point}-${job}`;
    const runner = await startRunner(point);
    await offer(runner, job, callId).catch(() => "the runner died");
    expect((await runner.process.exit).signal).toBe("SIGKILL");
    await runner.restart({ POSTERN_FAILPOINT: "" });
    await isReady(runner);
    const answered = await eventually("it is answered", async () => {
      const answer = await offer(runner, job, callId);
      return answer.status === 409 ? undefined : answer;
    });
    expect(answered.status).toBe(status);
    const call = async () => (await send(runner.address, { method: "GET", path: `/calls/${callId}` })).json();
    await eventually("it is done", async () => (await call())["state"] === "done");
    expect(effectsOf(callId)).toBe(runs);
  },
);

test("`postern runner` with a Redis that loses writes ends with code 1 and says what to do", async () => {
  const careless = await startRedis({ env: process.env, args: ["--appendfsync", "everysec"] });
  try {
    const part = await startProgram(careless.url);
    expect(await part.process.exit).toMatchObject({ code: 1 });
    const [failed] = part.process.events("service.failed");
    expect(failed?.["reason"]).toContain("appendfsync always");
  } finally {
    await careless.stop();
  }
});

test("`postern runner` starts before Redis, takes a call when it is there, and ends with code 0 on SIGTERM", async () => {
  await redis.kill("SIGTERM");
  const part = await startProgram(redis.url);
  expect((await offer(part, 1, "early")).status).toBe(503);
  await redis.restart();
  await isReady(part);
  expect(await offer(part, 1, "late")).toMatchObject({ status: 200, text: "x" });
  expect(await part.kill("SIGTERM")).toMatchObject({ code: 0 });
});

async function startProgram(redisUrl: string): Promise<Part> {
  const configDir = join(tempDir(), "config");
  const bindAddress = `127.0.0.1:${await freePort()}`;
  writeConfig(configDir, {
    postern: {
      redis: { url: redisUrl },
      runner: { url: `http://${bindAddress}`, bind_address: bindAddress },
    },
  });
  const part = await startPart({
    name: "runner",
    args: ["runner", "--config-dir", configDir],
    env: process.env,
  });
  parts.push(part);
  return part;
}
