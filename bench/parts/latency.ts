import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { SteadyOptions, SteadyResult } from "../processes/steady-protocol.ts";
import { compiled } from "../support/build.ts";
import type { Counts } from "../support/counts.ts";
import { measureFsync } from "../support/disk.ts";
import { load } from "../support/load.ts";
import type { Setup } from "../support/setup.ts";
import type { Latencies } from "../support/sink.ts";
import { median } from "../support/statistics.ts";
import { table } from "../support/table.ts";
import { BODY, hookPath, inWorld, SIGNATURE, TIMED_PATH, type World } from "../support/world.ts";

/** More than are ever under way, so that no request waits for a connection. */
const CONNECTIONS = 256;

type Round = Latencies & { fsyncP50Ms: number; fsyncP99Ms: number };

/** The medians of the rounds. */
type Side = Round & {
  /** How much longer the slowest hundredth takes than the disk for one fsync. */
  p99OverFsyncMs: number;
  rounds: readonly Round[];
};

type AtRate = { perSecond: number; ours: Side; baseline: Side };

export type LatencyFigures = Counts & {
  /** What gateway and producer together carry, with 64 connections. */
  highest: number;
  /** First at half of that. */
  byRate: readonly [AtRate, ...AtRate[]];
};

/**
 * How long a call takes from its first byte at the gateway to its arrival at the runner, at half of the rate that gateway and producer
 * carry together, and at further rates; and how long through the hand-written gateway and worker at the same rate, by turns.
 */
export function measureLatency({ quick, nodeArgs, rates }: Setup): Promise<LatencyFigures> {
  const [rounds, secs, warmUp, calls] = quick ? [3, 2, 1000, 4000] : [7, 6, 4000, 20_000];
  return inWorld(nodeArgs, async (world) => {
    const [{ address: ours }, { address: baseline }] = [
      await world.startGateway(),
      await world.startBaselineIngress(),
    ];
    await world.startProducer();
    await world.startBaselineDrain();
    const counts = { accepted: 0, counted: 0, duplicates: 0 };
    const add = (counted: Counts): void => {
      for (const key of ["accepted", "counted", "duplicates"] as const) counts[key] += counted[key];
    };

    async function carried(address: string): Promise<number> {
      await world.sink.reset();
      await load({ address, warmUp: 0, calls: warmUp + calls });
      const { calls: counted, duplicates } = await world.sink.arrived(warmUp + calls);
      add({ accepted: warmUp + calls, counted, duplicates });
      return (await world.sink.count(warmUp)).perSecond;
    }

    async function atRate(perSecond: number): Promise<AtRate> {
      const sides = { ours: [] as Round[], baseline: [] as Round[] };
      const pace = { perSecond, calls: perSecond * secs };
      for (let tries = 2 * rounds; tries > 0 && sides.ours.length < rounds; tries--) {
        const our = await oneRound(world, { address: ours, path: TIMED_PATH, ...pace });
        const bare = await oneRound(world, { address: baseline, path: hookPath(1), ...pace });
        add(our);
        add(bare);
        if (our.round === undefined || bare.round === undefined) continue;
        sides.ours.push(our.round);
        sides.baseline.push(bare.round);
      }
      if (sides.ours.length < rounds)
        throw new Error("the sender could not keep its pace in half of its rounds");
      return { perSecond, ours: toSide(sides.ours), baseline: toSide(sides.baseline) };
    }

    const highest = await carried(ours);
    await carried(baseline);
    const half = await atRate(Math.floor(highest / 2));
    const others: AtRate[] = [];
    for (const rate of rates) others.push(await atRate(rate));
    return { highest, byRate: [half, ...others], ...counts };
  });
}

type Pace = Pick<SteadyOptions, "address" | "path" | "perSecond" | "calls">;

/** `round` is undefined if the sender itself could not keep its pace. Throws when a call is not accepted. */
async function oneRound({ sink, dir }: World, pace: Pace): Promise<Counts & { round: Round | undefined }> {
  const { calls } = pace;
  const disk = await measureFsync(dir);
  await sink.reset();
  const options: SteadyOptions = {
    ...{ ...pace, body: BODY, connections: CONNECTIONS },
    ...{ headers: [`X-Signature-256: ${SIGNATURE}`] },
  };
  const script = compiled("bench/processes/steady.ts");
  const { stdout } = await promisify(execFile)(process.execPath, [script, JSON.stringify(options)]);
  const { statuses, unanswered, late } = JSON.parse(stdout) as SteadyResult;
  if (statuses["202"] !== calls || unanswered > 0)
    throw new Error(`not ${calls} calls, each accepted: ${stdout}`);
  const { calls: counted, duplicates } = await sink.arrived(calls);
  const found = { ...(await sink.latencies()), fsyncP50Ms: disk.p50Ms, fsyncP99Ms: disk.p99Ms };
  return { round: late === 0 ? found : undefined, accepted: calls, counted, duplicates };
}

function toSide(rounds: readonly Round[]): Side {
  const of = (key: keyof Round) => median(rounds.map((each) => each[key]));
  return {
    ...{ p50Ms: of("p50Ms"), p99Ms: of("p99Ms"), maxMs: of("maxMs") },
    ...{ fsyncP50Ms: of("fsyncP50Ms"), fsyncP99Ms: of("fsyncP99Ms") },
    p99OverFsyncMs: median(rounds.map(({ p99Ms, fsyncP99Ms }) => p99Ms - fsyncP99Ms)),
    rounds,
  };
}

const COLUMNS = [
  ["p50 ms", "p50Ms"],
  ["p99 ms", "p99Ms"],
  ["longest", "maxMs"],
  ["fsync p50", "fsyncP50Ms"],
  ["fsync p99", "fsyncP99Ms"],
] as const;

export function latencyTable({ highest, byRate }: LatencyFigures): string {
  const head = ["from the first byte to the runner", ...COLUMNS.map(([name]) => name)];
  const row = (text: string, round: Round) => [text, ...COLUMNS.map(([, key]) => round[key])];
  const rows = byRate.flatMap(({ perSecond, ours, baseline }) => [
    row(`${perSecond}/s  gateway and producer`, ours),
    row("  baseline", baseline),
    ...ours.rounds.flatMap((round, i) => {
      const after = baseline.rounds[i];
      return [row(`  round ${i + 1}`, round), ...(after ? [row("  baseline", after)] : [])];
    }),
  ]);
  return `${table(head, rows)}\n\n  ${Math.round(highest)} calls a second were carried`;
}
