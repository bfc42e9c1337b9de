import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createProducer, type Inject } from "../../services/producer/producer.ts";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { startRedis } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import type { ErrorCode } from "../../shared/errors/codes.ts";
import { randomCallId } from "../../shared/job-call/call-id.ts";
import { type Origin, toJobCall } from "../../shared/job-call/job-call.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { createCallRecords } from "../../shared/queue/call-record.ts";
import { createDiscard } from "../../shared/queue/discard.ts";
import { createAdd, createClaims } from "../../shared/queue/enqueue.ts";
import { createFailedCalls, type FailedCall } from "../../shared/queue/failed.ts";
import { createReplay } from "../../shared/queue/replay.ts";
import { connectForRequests, connectForWork, whenReady } from "../../shared/redis/connect.ts";
import { systemClock } from "../../shared/time/clock.ts";
import { recordingLog } from "../support/recording-log.ts";
import { tempDir } from "../support/temp-dir.ts";

export const WINDOW_MS = 3_600_000;
const ATTEMPTS = 3;

export type NewCall = {
  origin?: Origin;
  path?: string;
  jobId?: number;
  body?: Buffer;
  acceptedAt?: number;
  /** Whether its identity comes from evidence, so that it has a record from the start. */
  claimed?: boolean;
};

export type Fixture = Awaited<ReturnType<typeof startFixture>>;

/** A real Redis and, when asked, a real producer whose runner fails as the test says. */
export async function startFixture() {
  const server = await startRedis({ env: process.env });
  const redis = connectForRequests(new Secret(server.url), silentLogger);
  const work = connectForWork(new Secret(server.url), silentLogger);
  await whenReady(redis, 5000);
  const log = recordingLog();
  const deps = { redis, clock: systemClock, log, by: "tester@fixture" };
  const calls = createFailedCalls(redis);
  const records = createCallRecords(redis);
  const claims = createClaims(redis);
  const injected: string[] = [];
  let failure: ErrorCode | undefined;
  let producer: ReturnType<typeof createProducer> | undefined;

  const inject: Inject = async ({ call }) => {
    injected.push(call.id);
    if (failure !== undefined) throw new AppError(failure, { reason: "the runner said\nno \u001b[31m" });
  };
  const adds = { webhook: createAdd(redis, "webhook", log), x402: createAdd(redis, "x402", log) };

  const fixture = {
    ...{ server, redis, log, calls, records, claims, injected, attempts: ATTEMPTS },
    replay: createReplay(deps),
    discard: createDiscard(deps),

    /** From now on every attempt ends with this code; with none, it succeeds. */
    runnerAnswers(code?: ErrorCode) {
      failure = code;
    },

    async startProducer() {
      const backoff = { baseMs: 1, capMs: 2 };
      producer = createProducer({ inject, redis: work, log, attempts: ATTEMPTS, backoff, concurrency: 20 });
      await producer.ready();
    },

    async stopProducer() {
      await producer?.close(2000);
      producer = undefined;
    },

    async add({ origin = "webhook", claimed = true, ...given }: NewCall = {}): Promise<string> {
      const id = randomCallId();
      const body = given.body ?? Buffer.from(`body of ${id}`);
      const call = toJobCall({
        id,
        origin,
        job_id: given.jobId ?? 1,
        metadata: origin === "webhook" ? { "X-WEBHOOK-PATH": given.path ?? "/hooks/a" } : {},
        body,
        bodySha256: sha256Hex(body),
        contentType: "application/json",
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        accepted_at: given.acceptedAt ?? systemClock(),
      });
      if (claimed)
        await claims.claim(id, call.sha256, { windowMs: WINDOW_MS, now: systemClock(), by: "a test" });
      await adds[origin](call);
      if (claimed) await claims.markQueued(id, systemClock());
      return id;
    },

    /** Adds these calls, has a producer fail them and stops it. */
    async fail(given: readonly NewCall[], code: ErrorCode = "runner.refused"): Promise<string[]> {
      const before = await calls.count({});
      fixture.runnerAnswers(code);
      await fixture.startProducer();
      const ids = await Promise.all(given.map((call) => fixture.add(call)));
      await fixture.untilFailed(before + ids.length);
      await fixture.stopProducer();
      fixture.runnerAnswers();
      return ids;
    },

    async untilFailed(count: number): Promise<void> {
      await eventually(`${count} calls have failed`, async () => (await calls.count({})) === count);
    },

    async find(id: string): Promise<FailedCall> {
      const failed = await calls.find(id);
      if (failed === undefined) throw new Error(`${id} is not among the failed calls`);
      return failed;
    },

    /** How often the runner was offered the call. */
    offered: (id: string) => injected.filter((one) => one === id).length,

    async clear() {
      await fixture.stopProducer();
      await redis.flushdb();
      injected.splice(0);
      log.events.splice(0);
      failure = undefined;
    },

    async stop() {
      await fixture.stopProducer();
      redis.disconnect();
      work.disconnect();
      await server.stop();
    },
  };
  return fixture;
}

export const WHY = { selection: "by test" };

export type Ran = { code: number | null; stdout: Buffer; stderr: string; ms: number };

type Run = { onStderr?: (soFar: string, kill: (signal: NodeJS.Signals) => void) => void };

/** Runs the built program against the Redis at `redisUrl`, without a terminal. */
export function cliOf(redisUrl: string) {
  const configDir = join(tempDir(), "config");
  writeConfig(configDir, { postern: { redis: { url: redisUrl } } });
  const main = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
  return (args: readonly string[], { onStderr }: Run = {}): Promise<Ran> =>
    new Promise((resolve, reject) => {
      const startedAt = Date.now();
      const env = { ...process.env, POSTERN_CONFIG_DIR: configDir };
      const child = spawn(process.execPath, [main, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
      const stdout: Buffer[] = [];
      let stderr = "";
      child.stdout.on("data", (chunk: Buffer) => void stdout.push(chunk));
      child.stderr.on("data", (chunk: Buffer) => {
        stderr += chunk.toString();
        onStderr?.(stderr, (signal) => void child.kill(signal));
      });
      child.on("error", reject);
      child.on("close", (code) => {
        resolve({ code, stdout: Buffer.concat(stdout), stderr, ms: Date.now() - startedAt });
      });
    });
}
