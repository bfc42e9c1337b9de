import { createCallStore } from "../../services/runner/call-store.ts";
import { KeptAnswers } from "../../services/runner/kept-answers.ts";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import { randomCallId } from "../../shared/job-call/call-id.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { DurableRedis } from "../../shared/redis/durable.ts";
import { openProbe } from "../support/redis-probe.ts";
import type { Setup } from "../support/setup.ts";
import { inWorld } from "../support/world.ts";

export type OfRunner = {
  /** Bytes of Redis for a finished call, by the size of its answer. */
  kept: { answerBytes: number; bytesPerCall: number }[];
  /** The same when its answer is no longer kept, nor the call listed. */
  compactBytesPerCall: number;
};

const DAY_MS = 86_400_000;
const AT_ONCE = 100;

/** What the reference runner remembers of a call that it has answered with 2xx. */
export async function measureOfRunner(setup: Setup): Promise<OfRunner> {
  const kept = [];
  for (const answerBytes of [1000, 10_000])
    kept.push({ answerBytes, bytesPerCall: await bytesPerCall(setup, answerBytes, DAY_MS) });
  return { kept, compactBytesPerCall: await bytesPerCall(setup, 1000, 1) };
}

function bytesPerCall({ quick, nodeArgs }: Setup, answerBytes: number, answerMs: number): Promise<number> {
  const count = quick ? 5000 : 20_000;
  return inWorld(nodeArgs, async (world) => {
    const probe = await openProbe(world.redis.url);
    const durable = new DurableRedis({ redis: probe.redis, mode: "strict", log: silentLogger });
    const bounds = { resultBytesMax: 2 ** 18, answersBytesMax: 2 ** 30, answersMemoryRatioMax: 1 };
    const answers = new KeptAnswers({ durable, answerMs, ...bounds, log: silentLogger });
    await durable.firstCheck;
    const options = { durable, owner: "bench", leaseMs: 30_000, memoryMs: 30 * DAY_MS, answers };
    const calls = createCallStore(options);
    const body = Buffer.alloc(answerBytes, "x");
    const runOne = async (): Promise<void> => {
      const callId = randomCallId();
      const call = { callId, jobId: 1, bytes: 300, sha256: sha256Hex(Buffer.from(callId)) };
      await calls.begin(call);
      await calls.finish(call, { status: 200, contentType: "application/json", body });
    };
    const run = async (times: number): Promise<void> => {
      for (let done = 0; done < times; done += AT_ONCE)
        await Promise.all(Array.from({ length: AT_ONCE }, runOne));
    };
    await run(AT_ONCE);
    const before = await probe.usedBytes();
    await run(count);
    const bytes = (await probe.usedBytes()) - before;
    answers.stop();
    durable.stop();
    probe.close();
    return bytes / count;
  });
}
