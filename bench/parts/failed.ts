import { spawn } from "node:child_process";
import { composeProducer, Refused } from "../../services/producer/producer.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { createEnqueue } from "../../shared/queue/enqueue.ts";
import { createFailedCalls } from "../../shared/queue/failed.ts";
import { queueOf } from "../../shared/queue/queue-name.ts";
import { connectForWork } from "../../shared/redis/connect.ts";
import { type Partition, partitionOf } from "../../shared/redis/partition.ts";
import { copyId, multiplyFailed } from "../../test/support/multiply-failed.ts";
import { compiled } from "../support/build.ts";
import { newCall } from "../support/fill.ts";
import { peakRssBytesOf } from "../support/proc.ts";
import type { Setup } from "../support/setup.ts";
import { mebibytes, table } from "../support/table.ts";
import { inWorld } from "../support/world.ts";

/** One run of a command: how long it took, and the most memory that it held. */
type Ran = { what: string; ms: number; peakRssBytes: number };

export type FailedFigures = { failed: number; queues: number; redisBytesPerCall: number; runs: Ran[] };

const QUEUES = 300;
const IDS = 1000;
const POLL_MS = 50;

/** What `postern failed` takes when very many calls have failed. */
export function measureFailed({ quick, nodeArgs }: Setup): Promise<FailedFigures> {
  const failed = quick ? 50_000 : 1_000_000;
  const some = quick ? 5000 : 100_000;
  return inWorld(nodeArgs, async ({ redis, configDir }) => {
    const client = connectForWork(new Secret(redis.url), silentLogger);
    const partition = partitionOf(client);
    const usedBytes = async () => Number(/^used_memory:(\d+)/m.exec(await client.info("memory"))?.[1]);
    const emptyBytes = await usedBytes();
    await failCalls(partition, failed);
    const redisBytesPerCall = ((await usedBytes()) - emptyBytes) / failed;
    const runs: Ran[] = [];
    const run = async (what: string, ...args: string[]) => {
      runs.push({
        what,
        ...(await timed([...nodeArgs, compiled("services/cli/main.ts"), "failed", ...args], configDir)),
      });
    };
    const ids = Array.from({ length: IDS }, (_, i) => copyId(Math.floor((i * failed) / IDS) + 1));
    const count = (calls: number) => calls.toLocaleString("en");
    await run("list, the newest 50", "list");
    await run("list --limit 1 --code, which counts all", "list", "--limit", "1", "--code", "runner.refused");
    await run("list --limit 0", "list", "--limit", "0");
    await run(`replay --dry-run ${count(IDS)} ids`, "replay", "--dry-run", ...ids);
    await run("replay --all --dry-run", "replay", "--all", "--dry-run");
    await run(`replay --all --limit ${some}`, "replay", "--all", "--limit", String(some));
    await run(
      `discard --all --limit ${some}`,
      ...["discard", "--all", "--limit", String(some)],
      ...["--yes", "--reason", "bench"],
    );
    const left = await createFailedCalls(partition).count({});
    client.disconnect();
    if (left !== failed - 2 * some) throw new Error(`${left} calls are left of ${failed}`);
    return { failed, queues: QUEUES, redisBytesPerCall, runs };
  });
}

/** One call by a producer, the others as its copies. */
async function failCalls(partition: Partition, count: number): Promise<void> {
  const call = newCall();
  await createEnqueue(partition)(call);
  const inject = async () => {
    throw new Refused("the runner answered 404: it does not have this job");
  };
  const producer = composeProducer({ redis: partition.redis, log: silentLogger, inject });
  const calls = createFailedCalls(partition);
  await eventually("the call has failed", async () => (await calls.count({})) === 1);
  await producer.close(1000);
  const queues = Array.from({ length: QUEUES }, (_, job) => queueOf({ ...call, job_id: job + 1 }));
  const of = { id: call.id, queue: queueOf(call) };
  await multiplyFailed(partition, { of, copies: count - 1, queues, everyMs: -1 });
}

/** Throws if the command fails. Its output goes nowhere. */
async function timed(args: readonly string[], configDir: string): Promise<Omit<Ran, "what">> {
  const startedAt = performance.now();
  const env = { ...process.env, POSTERN_CONFIG_DIR: configDir, POSTERN_LOG_LEVEL: "warn" };
  const running = spawn(process.execPath, [...args], { env, stdio: ["ignore", "ignore", "inherit"] });
  let peakRssBytes = 0;
  const polling = setInterval(() => {
    peakRssBytes = Math.max(peakRssBytes, peakRssBytesOf(running.pid) || 0);
  }, POLL_MS);
  const code = await new Promise((resolve, reject) => {
    running.on("error", reject);
    running.on("close", resolve);
  });
  clearInterval(polling);
  if (code !== 0) throw new Error(`postern ${args.slice(1, 6).join(" ")} has ended with ${code}`);
  return { ms: performance.now() - startedAt, peakRssBytes };
}

export function failedTable({ failed, queues, redisBytesPerCall, runs }: FailedFigures): string {
  const rows = runs.map(({ what, ms, peakRssBytes }) => [what, ms / 1000, mebibytes(peakRssBytes)]);
  const of = `  ${failed.toLocaleString("en")} failed calls in ${queues} queues, ${Math.round(redisBytesPerCall)} bytes each in Redis`;
  return `${table(["postern failed", "s", "peak MiB"], rows)}\n\n${of}`;
}
