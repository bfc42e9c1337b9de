import { createHash } from "node:crypto";
import { createCallStore } from "../../../services/runner/call-store.ts";
import { KeptAnswers } from "../../../services/runner/kept-answers.ts";
import type { HttpAnswer } from "../../../services/runner/router.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { DurableRedis } from "../../../shared/redis/durable.ts";
import type { Ends } from "../../fixtures/ends.ts";
import { runnerKeys, type TestRedis } from "../../fixtures/redis.ts";

const DAY_MS = 86_400_000;

/**
 * The stores that a runner uses, without the runner, so that a test can make many calls quickly. Redis keeps no latency
 * histograms: each takes 32 kB from the first use of its command on, which would count as memory of calls.
 */
export async function openCalls(redis: TestRedis, ends: Ends, options: { answerMs?: number } = {}) {
  await redis.client.config("SET", "latency-tracking", "no");
  const durable = new DurableRedis({ redis: redis.client, mode: "strict", log: silentLogger });
  ends.defer(() => durable.stop());
  const answers = new KeptAnswers({
    keys: runnerKeys,
    ...{ durable, resultBytesMax: 1e6, answersBytesMax: 1e9, answersMemoryRatioMax: 1, log: silentLogger },
    answerMs: options.answerMs ?? DAY_MS,
  });
  ends.defer(() => answers.stop());
  await durable.firstCheck;
  const calls = createCallStore({
    durable,
    keys: runnerKeys,
    owner: "one",
    leaseMs: 30_000,
    memoryMs: 30 * DAY_MS,
    answers,
  });

  /** Begins and finishes this number of calls. Their ids are as long as those of a gateway. */
  async function run(count: number, answer: HttpAnswer): Promise<void> {
    for (let i = 0; i < count; i += 100) await Promise.all(keysFrom(i).map((key) => runOne(key, answer)));
  }

  async function runOne(callId: string, answer: HttpAnswer): Promise<void> {
    const sha256 = createHash("sha256").update(callId).digest("hex");
    const call = { callId, jobId: 1, bytes: 300, sha256 };
    await calls.begin(call);
    await calls.finish(call, answer);
  }

  return { run };
}

const keysFrom = (first: number) =>
  Array.from({ length: 100 }, (_, i) => `c_${(first + i).toString(16).padStart(32, "0")}`);

/** The number of bytes that Redis has allocated. */
export async function usedBytes({ client }: TestRedis): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await client.info("memory"))?.[1]);
}

/**
 * An answer with a JSON body of this length. With 0 it has neither body nor content type, and the store keeps nothing for it.
 */
export function answerOf(bytes: number): HttpAnswer {
  const contentType = bytes === 0 ? undefined : "application/json";
  return { status: 200, contentType, body: Buffer.alloc(bytes, "x") };
}
