import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { SteadyOptions, SteadyResult } from "../processes/steady-protocol.ts";
import { compiled } from "../support/build.ts";
import { type BothSides, comparisonTable, toSide } from "../support/compare.ts";
import { type Counts, totalOf } from "../support/counts.ts";
import { measureFsync } from "../support/disk.ts";
import { load } from "../support/load.ts";
import type { Setup } from "../support/setup.ts";
import type { Latencies } from "../support/sink.ts";
import { BODY, hookPath, inWorld, SIGNATURE, TIMED_PATH, type World } from "../support/world.ts";

/** Number of the sender's connections. It exceeds the number of requests in flight, so that none waits for a connection. */
const CONNECTIONS = 256;

type Round = Latencies & {
  fsyncP50Ms: number;
  fsyncP99Ms: number;
  /** p99 of the latency minus the p99 of one fsync on this disk: the time that does not depend on the disk. */
  p99OverFsyncMs: number;
};

type AtRate = BothSides<Round> & { perSecond: number };

export type LatencyFigures = Counts & {
  /** Highest rate in calls per second that gateway and producer carry from the sender to the runner, with 64 connections. */
  highest: number;
  /** Figures at each measured rate. The first rate is half of the highest one. */
  byRate: readonly [AtRate, ...AtRate[]];
};

/**
 * Measures the time from the moment when a sender starts to send a call to its arrival at the runner. It first finds the
 * highest rate that gateway and producer carry together. Then it measures at half of that rate, and at each rate from the
 * command line. At each rate, rounds of Postern alternate with rounds of the hand-written gateway and worker.
 */
export function measureLatency({ quick, nodeArgs, rates }: Setup): Promise<LatencyFigures> {
  const [rounds, secs, warmUp, calls] = quick ? [3, 2, 1000, 4000] : [7, 6, 4000, 20_000];
  return inWorld(nodeArgs, async (world) => {
    const { address: ours } = await world.startGateway();
    const { address: baseline } = await world.startBaselineIngress();
    await world.startProducer();
    await world.startBaselineDrain();
    const counts: Counts[] = [];

    async function carried(address: string): Promise<number> {
      await world.sink.reset();
      await load({ address, warmUp: 0, calls: warmUp + calls });
      const { calls: counted, duplicates } = await world.sink.arrived(warmUp + calls);
      counts.push({ accepted: warmUp + calls, counted, duplicates });
      return (await world.sink.count(warmUp)).perSecond;
    }

    async function atRate(perSecond: number): Promise<AtRate> {
      const sides = { ours: [] as Round[], baseline: [] as Round[] };
      const pace = { perSecond, calls: perSecond * secs };
      for (let tries = 2 * rounds; tries > 0 && sides.ours.length < rounds; tries--) {
        const our = await oneRound(world, { address: ours, path: TIMED_PATH, ...pace });
        const bare = await oneRound(world, { address: baseline, path: hookPath(1), ...pace });
        counts.push(our, bare);
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
    const byRate: [AtRate, ...AtRate[]] = [await atRate(Math.floor(highest / 2))];
    for (const rate of rates) byRate.push(await atRate(rate));
    return { highest, byRate, ...totalOf(counts) };
  });
}

type Pace = Pick<SteadyOptions, "address" | "path" | "perSecond" | "calls">;

/**
 * Measures one round. If the sender could not send at the required rate, `round` is undefined, because its figures would
 * be wrong. Throws if a call is not accepted.
 */
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
    throw new Error(`not all ${calls} calls were accepted: ${stdout}`);
  const { calls: counted, duplicates } = await sink.arrived(calls);
  const latencies = await sink.latencies();
  const found = {
    ...{ ...latencies, fsyncP50Ms: disk.p50Ms, fsyncP99Ms: disk.p99Ms },
    p99OverFsyncMs: latencies.p99Ms - disk.p99Ms,
  };
  return { round: late === 0 ? found : undefined, accepted: calls, counted, duplicates };
}

const COLUMNS = [
  ["p50 ms", "p50Ms"],
  ["p99 ms", "p99Ms"],
  ["longest", "maxMs"],
  ["fsync p50", "fsyncP50Ms"],
  ["fsync p99", "fsyncP99Ms"],
] as const;

export function latencyTable({ highest, byRate }: LatencyFigures): string {
  const tables = byRate.map((atRate) =>
    comparisonTable(atRate, {
      what: `first byte to runner, ${atRate.perSecond} calls/s`,
      name: "gateway, producer",
      columns: COLUMNS,
    }),
  );
  return [...tables, `  highest rate: ${Math.round(highest)} calls a second`].join("\n\n");
}
