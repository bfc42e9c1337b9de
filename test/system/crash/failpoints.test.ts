import { join } from "node:path";
import { Queue } from "bullmq";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Secret } from "../../../shared/crypto/secret.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { JobCall } from "../../../shared/job-call/job-call.ts";
import { FAILPOINTS, type Failpoint } from "../../../shared/lifecycle/failpoint.ts";
import { silentLogger } from "../../../shared/log/logger.ts";
import { QUEUE_OPTIONS } from "../../../shared/queue/protocol.ts";
import { connectForWork, type Redis } from "../../../shared/redis/connect.ts";
import { effectRunner, readEffects } from "../../support/effects.ts";
import { send } from "../../support/http.ts";
import { startTestStack, type TestStack } from "../../support/stack.ts";
import { tempDir } from "../../support/temp-dir.ts";

const effectsFile = join(tempDir(), "effects.jsonl");
const CALLS = 5;
const ID_HEADER = "X-Delivery-Id";

let stack: TestStack;
let redis: Redis;
let queue: Queue<JobCall>;

beforeAll(async () => {
  const endpoint = { auth: "none", idempotency_header: ID_HEADER };
  stack = await startTestStack({
    endpoints: [
      { ...endpoint, path: "/effect", job_id: 1 },
      { ...endpoint, path: "/long", job_id: 2 },
      { ...endpoint, path: "/unknown", job_id: 404 },
    ],
    postern: { producer: { lock_ms: 1000 }, runner: { timeout_ms: 800, lease_ms: 1000 } },
    runnerEntry: effectRunner(),
    env: { EFFECTS_FILE: effectsFile },
  });
  redis = connectForWork(new Secret(stack.redis.url), silentLogger);
  queue = new Queue("webhook", { ...QUEUE_OPTIONS, connection: redis, skipMetasUpdate: true });
  queue.on("error", () => {});
});
afterAll(async () => {
  await queue?.close();
  redis?.disconnect();
  await stack?.stop();
});

/** Sends one delivery until it has its 202, as a sender does that knows only what it was told. */
function deliver(path: string, id: string): Promise<string> {
  return eventually(`${id} is accepted`, async () => {
    const answer = await send(stack.address, { path, headers: { [ID_HEADER]: id }, body: `body of ${id}` });
    return answer.status === 202 ? String(answer.json()["call_id"]) : undefined;
  });
}

function partOf(point: Failpoint): Part {
  if (point.startsWith("runner.")) return stack.runner;
  return (point.startsWith("gateway.") ? stack.gateways : stack.producers)[0]!;
}

/** Arms the point, sends calls until the process has died at it, brings it back unarmed, and waits for the queue to empty. */
async function crash(point: Failpoint, path: string, calls = CALLS): Promise<string[]> {
  const part = partOf(point);
  await part.restart({ POSTERN_FAILPOINT: point });
  const died = part.process.exit.then(async (exit) => {
    await part.restart();
    return exit;
  });
  const ids = await Promise.all(Array.from({ length: calls }, (_, i) => deliver(path, `${point}-${i}`)));
  expect((await died).signal, "it died at its failpoint").toBe("SIGKILL");
  await eventually(
    "nothing waits",
    async () => (await queue.getJobCountByTypes("wait", "active", "delayed")) === 0,
  );
  return ids;
}

function effectsOf(ids: readonly string[]): number[] {
  const effects = readEffects(effectsFile);
  return ids.map((id) => effects.filter(({ callId }) => callId === id).length);
}

/** A runner killed inside a handler runs that call again: whether the effect had happened is known to nobody. */
const INSIDE_A_HANDLER: readonly Failpoint[] = ["runner.in_handler", "runner.after_handler"];
const ON_A_REFUSAL: readonly Failpoint[] = ["producer.after_attempt_recorded", "producer.after_failed"];
const OF_LONG_JOBS: readonly Failpoint[] = ["runner.after_stored"];
/** The paid path has a file of its own (paid-failpoints.test.ts). */
const OF_PAYMENTS = FAILPOINTS.filter((point) => point.startsWith("x402."));
const special = [...INSIDE_A_HANDLER, ...ON_A_REFUSAL, ...OF_LONG_JOBS, ...OF_PAYMENTS];

/** In a runner that dies, other calls may be inside a handler: there the point is told of a call that runs alone. */
const callsAt = (point: Failpoint) => (point.startsWith("runner.") ? 1 : CALLS);

describe("killed at this instant, no accepted call is lost and none has a second effect", () => {
  test.each(FAILPOINTS.filter((point) => !special.includes(point)))("%s", async (point) => {
    const ids = await crash(point, "/effect", callsAt(point));
    expect(effectsOf(ids)).toEqual(ids.map(() => 1));
  });

  test.each(OF_LONG_JOBS)("%s", async (point) => {
    const ids = await crash(point, "/long", callsAt(point));
    await eventually("the long calls have run", () => effectsOf(ids).every((count) => count > 0));
    expect(effectsOf(ids)).toEqual(ids.map(() => 1));
  });
});

test.each(INSIDE_A_HANDLER)(
  "killed inside a handler, the call runs again and the others are not touched: %s",
  async (point) => {
    const ids = await crash(point, "/effect");
    const counts = effectsOf(ids);
    expect(Math.min(...counts)).toBe(1);
    expect(Math.max(...counts)).toBeLessThanOrEqual(2);
  },
);

test.each(ON_A_REFUSAL)(
  "killed while a refusal is recorded, the call is failed once and not lost: %s",
  async (point) => {
    const ids = await crash(point, "/unknown");
    const failed = await queue.getJobs(["failed"]);
    expect(failed.map((job) => job.id)).toEqual(expect.arrayContaining(ids));
    expect(new Set(failed.map((job) => job.id)).size).toBe(failed.length);
    for (const id of ids) expect(await redis.hget(`{postern}:call:${id}`, "st")).toBe("FAILED");
  },
);

test("a call whose worker dies again and again is not failed, and has one effect", async () => {
  const producer = stack.producers[0]!;
  await producer.restart({ POSTERN_FAILPOINT: "producer.before_post" });
  const id = await deliver("/effect", "deadly");
  for (let death = 1; death <= 4; death++) {
    expect((await producer.process.exit).signal).toBe("SIGKILL");
    await producer.restart(death < 4 ? { POSTERN_FAILPOINT: "producer.before_post" } : {});
  }
  await eventually("it has its effect", () => effectsOf([id])[0] === 1);
  await eventually(
    "nothing waits",
    async () => (await queue.getJobCountByTypes("wait", "active", "delayed")) === 0,
  );
  expect(effectsOf([id])).toEqual([1]);
});
