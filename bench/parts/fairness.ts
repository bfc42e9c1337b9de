import { writeConfig } from "../../shared/config/config-tables.ts";
import type { Part } from "../../shared/dev/process.ts";
import { untilReady } from "../../shared/dev/stack.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { delay } from "../../shared/time/clock.ts";
import { type Counts, totalOf } from "../support/counts.ts";
import { load } from "../support/load.ts";
import type { Setup } from "../support/setup.ts";
import { quantile } from "../support/statistics.ts";
import { table } from "../support/table.ts";
import { startTroubledRunner, type Trouble, type TroubledRunner } from "../support/troubled-runner.ts";
import {
  BODY,
  CONCURRENCY,
  hookPath,
  inWorld,
  posternTable,
  SIGNATURE,
  type World,
} from "../support/world.ts";

const QUICK_JOB = 1;
const WORKERS = [1, 2] as const;
const PER_SECOND = 50;
/** The default of `runner.timeout_ms`, for the baseline. */
const TIMEOUT_MS = 10_000;
/** In which the troubled jobs take all that they get. */
const SETTLE_MS = 1000;
/** Longer than any backoff or `Retry-After` of a scene. */
const PATIENCE_MS = 60_000;

/** What waits before the first call of the quick job comes. */
type Scene = { what: string; trouble: Trouble; jobs: readonly number[]; callsEach: number };

const SCENES: readonly Scene[] = [
  { what: "1 job hangs, 1,000 calls", trouble: "hangs", jobs: [2], callsEach: 1000 },
  { what: "5 jobs hang, 1,000 calls each", trouble: "hangs", jobs: [2, 3, 4, 5, 6], callsEach: 1000 },
  { what: "1 job is busy (429), 100 calls", trouble: "is busy", jobs: [2], callsEach: 100 },
];

/** How long the quick job's calls waited, from their 202 to their arrival at the runner. */
type Waits = {
  p50Ms: number;
  p99Ms: number;
  maxMs: number;
  /** Calls that nobody waited for any longer; in the other figures they count with the whole of that time. */
  late: number;
  /** Hanging calls under way at once, at most, meanwhile. */
  underWay: number;
};

export type FairnessFigures = Counts & {
  /** Calls of the quick job in each scene, and how long each was waited for. */
  calls: number;
  capMs: number;
  scenes: readonly { what: string; ours: Waits; baseline: Waits }[];
};

type Length = { calls: number; capMs: number };

/** Two producers with default settings, then two hand-written workers on one queue, beside jobs in trouble. */
export async function measureFairness({ quick, nodeArgs }: Setup): Promise<FairnessFigures> {
  const length = quick ? { calls: 200, capMs: 12_000 } : { calls: 1000, capMs: 60_000 };
  const counts: Counts[] = [];
  const scenes: { what: string; ours: Waits; baseline: Waits }[] = [];
  for (const scene of SCENES) {
    await inWorld(nodeArgs, async (world) => {
      const { waits: ours, ...own } = await measureOurs(world, scene, length);
      counts.push(own);
      const baseline = await measureBaseline(world, scene, length);
      scenes.push({ what: scene.what, ours, baseline });
    });
  }
  return { ...length, scenes, ...totalOf(counts) };
}

/** In the end the troubled jobs recover, so that every accepted call can be counted. */
async function measureOurs(world: World, scene: Scene, length: Length): Promise<Counts & { waits: Waits }> {
  const { redis, configDir, stack } = world;
  const runner = await startTroubledRunner(scene.jobs, scene.trouble);
  writeConfig(configDir, { postern: posternTable(redis.url, runner.url, {}) });
  const gateway = await world.startGateway();
  const start = async (worker: number) => {
    const producer = await stack.start("producer", { name: `producer-${worker}` });
    await untilReady(producer);
    return producer;
  };
  const { waits, workers } = await play({ scene, length, runner, ingress: gateway, start });
  runner.recover();
  const accepted = scene.jobs.length * scene.callsEach + length.calls;
  const { calls: counted, duplicates } = await untilAnswered(runner, accepted);
  await Promise.all([gateway, ...workers].map((part) => part.kill()));
  await runner.close();
  return { accepted, counted, duplicates, waits };
}

async function measureBaseline(world: World, scene: Scene, length: Length): Promise<Waits> {
  const runner = await startTroubledRunner(scene.jobs, scene.trouble);
  const ingress = await world.startBaselineIngress();
  const settings = [world.redis.url, runner.url, String(CONCURRENCY), String(TIMEOUT_MS)];
  const start = (worker: number) =>
    world.start(`baseline-drain-${worker}`, "bench/baselines/drain.ts", settings);
  const { waits, workers } = await play({ scene, length, runner, ingress, start });
  await Promise.all([ingress, ...workers].map((part) => part.kill()));
  await runner.close();
  return waits;
}

type Play = {
  scene: Scene;
  length: Length;
  runner: TroubledRunner;
  ingress: Part;
  start: (worker: number) => Promise<Part>;
};

/** The troubled calls wait first; then the workers start, and then the quick job's calls come at a steady rate. */
async function play({ scene, length, runner, ingress, start }: Play) {
  const calls = scene.jobs.length * scene.callsEach;
  await load({ address: ingress.address, jobs: scene.jobs, warmUp: 0, calls });
  const workers = await Promise.all(WORKERS.map(start));
  await eventually("the first troubled call arrives", () => runner.troubledArrivals() > 0);
  await delay(SETTLE_MS);
  runner.mostUnderWay();
  const accepted = await sendSteadily(ingress.address, length.calls);
  const waits = await waitFor(accepted, runner, length);
  return { workers, waits };
}

type Accepted = { id: string; at: number };

function sendSteadily(address: string, calls: number): Promise<Accepted[]> {
  const startedAt = performance.now();
  const sendOne = async (_: unknown, i: number): Promise<Accepted> => {
    await delay(startedAt + (i * 1000) / PER_SECOND - performance.now());
    const answer = await fetch(`http://${address}${hookPath(QUICK_JOB)}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Signature-256": SIGNATURE },
      body: BODY,
    });
    const at = performance.now();
    if (answer.status !== 202) throw new Error(`a call was answered with ${answer.status}`);
    const { call_id } = (await answer.json()) as { call_id: string };
    return { id: call_id, at };
  };
  return Promise.all(Array.from({ length: calls }, sendOne));
}

async function waitFor(
  accepted: readonly Accepted[],
  runner: TroubledRunner,
  { capMs }: Length,
): Promise<Waits> {
  const missing = () => accepted.filter(({ id }) => runner.arrivedAt(id) === undefined);
  const newest = Math.max(...accepted.map(({ at }) => at));
  while (performance.now() < newest + capMs && missing().length > 0) await delay(100);
  // A call may arrive before its 202 does.
  const waits = accepted.map(({ id, at }) =>
    Math.min(capMs, Math.max(0, (runner.arrivedAt(id) ?? Number.POSITIVE_INFINITY) - at)),
  );
  return {
    p50Ms: quantile(waits, 0.5),
    p99Ms: quantile(waits, 0.99),
    maxMs: Math.max(...waits),
    late: waits.filter((ms) => ms === capMs).length,
    underWay: runner.mostUnderWay(),
  };
}

/** Resolves once so many calls have been answered with 200, or none has for a while. */
async function untilAnswered(runner: TroubledRunner, calls: number) {
  let seen = runner.answered();
  let progressAt = performance.now();
  while (seen.calls < calls && performance.now() - progressAt < PATIENCE_MS) {
    await delay(250);
    const now = runner.answered();
    if (now.calls > seen.calls) progressAt = performance.now();
    seen = now;
  }
  return seen;
}

export function fairnessTable({ calls, capMs, scenes }: FairnessFigures): string {
  const seconds = calls / PER_SECOND;
  const head = [
    `${PER_SECOND} calls/s of a quick job, ${seconds} s`,
    "p50 ms",
    "p99 ms",
    "max ms",
    "late",
    "hanging at once",
  ];
  const ms = (value: number) => (value === capMs ? `> ${capMs.toLocaleString("en")}` : value);
  const row = (side: string, { p50Ms, p99Ms, maxMs, late, underWay }: Waits) => [
    `  ${side}`,
    ms(p50Ms),
    ms(p99Ms),
    ms(maxMs),
    late,
    underWay,
  ];
  const rows = scenes.flatMap(({ what, ours, baseline }) => [
    [what],
    row("2 producers", ours),
    row("2 workers, one queue", baseline),
  ]);
  return table(head, rows);
}
