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
import { BODY, inWorld, SIGNATURE, TIMED_PATH, type World } from "../support/world.ts";

/** More than are ever under way, so that no request waits for a connection. */
const CONNECTIONS = 256;

type Round = Latencies & { fsyncP50Ms: number; fsyncP99Ms: number };

export type LatencyFigures = Counts & {
  /** What gateway and producer together carry, with 64 connections. */
  highest: number;
  perSecond: number;
  rounds: readonly Round[];
  /** Of the rounds, the medians. */
  p50Ms: number;
  p99Ms: number;
  /** How much longer the slowest hundredth takes than the disk for one fsync. */
  p99OverFsyncMs: number;
};

/**
 * How long a call takes from its first byte at the gateway to its arrival at the runner, at half of the rate that gateway and
 * producer carry together.
 */
export function measureLatency({ quick, nodeArgs }: Setup): Promise<LatencyFigures> {
  const [rounds, secs, warmUp, calls] = quick ? [3, 2, 1000, 4000] : [7, 6, 4000, 20_000];
  return inWorld(nodeArgs, async (world) => {
    const { address } = await world.startGateway();
    await world.startProducer();
    await load({ address, warmUp: 0, calls: warmUp + calls });
    await world.sink.arrived(warmUp + calls);
    const { perSecond: highest } = await world.sink.count(warmUp);
    const perSecond = Math.floor(highest / 2);
    const measured: Round[] = [];
    const counts = { accepted: warmUp + calls, counted: warmUp + calls, duplicates: 0 };
    for (let tries = 2 * rounds; tries > 0 && measured.length < rounds; tries--) {
      const { each, ...counted } = await oneRound(world, address, { perSecond, calls: perSecond * secs });
      if (each !== undefined) measured.push(each);
      counts.accepted += counted.accepted;
      counts.counted += counted.counted;
      counts.duplicates += counted.duplicates;
    }
    if (measured.length < rounds) throw new Error("the sender could not keep its pace in half of its rounds");
    const of = (key: keyof Round) => median(measured.map((each) => each[key]));
    const p99OverFsyncMs = median(measured.map(({ p99Ms, fsyncP99Ms }) => p99Ms - fsyncP99Ms));
    return {
      ...{ highest, perSecond, rounds: measured, ...counts },
      ...{ p50Ms: of("p50Ms"), p99Ms: of("p99Ms"), p99OverFsyncMs },
    };
  });
}

type Pace = { perSecond: number; calls: number };

/** `each` is undefined if the sender itself could not keep its pace. Throws when a call is not accepted. */
async function oneRound(
  { sink, dir }: World,
  address: string,
  { perSecond, calls }: Pace,
): Promise<Counts & { each: Round | undefined }> {
  const disk = await measureFsync(dir);
  await sink.reset();
  const options: SteadyOptions = {
    ...{ address, perSecond, calls, path: TIMED_PATH, body: BODY, connections: CONNECTIONS },
    ...{ headers: [`X-Signature-256: ${SIGNATURE}`] },
  };
  const script = compiled("bench/processes/steady.ts");
  const { stdout } = await promisify(execFile)(process.execPath, [script, JSON.stringify(options)]);
  const { statuses, unanswered, late } = JSON.parse(stdout) as SteadyResult;
  if (statuses["202"] !== calls || unanswered > 0)
    throw new Error(`not ${calls} calls, each accepted: ${stdout}`);
  const { calls: counted, duplicates } = await sink.arrived(calls);
  const found = { ...(await sink.latencies()), fsyncP50Ms: disk.p50Ms, fsyncP99Ms: disk.p99Ms };
  const each = late === 0 ? found : undefined;
  return { each, accepted: calls, counted, duplicates };
}

const COLUMNS = [
  ["p50 ms", "p50Ms"],
  ["p99 ms", "p99Ms"],
  ["longest", "maxMs"],
  ["fsync p50", "fsyncP50Ms"],
  ["fsync p99", "fsyncP99Ms"],
] as const;

export function latencyTable({ highest, perSecond, rounds }: LatencyFigures): string {
  const middle = COLUMNS.map(([, key]) => median(rounds.map((each) => each[key])));
  const rows = rounds.map((each, i) => [`  round ${i + 1}`, ...COLUMNS.map(([, key]) => each[key])]);
  const head = ["from the first byte to the runner", ...COLUMNS.map(([name]) => name)];
  const line = `${perSecond} calls a second, half of the ${Math.round(highest)} that were carried`;
  return `${table(head, [["medians", ...middle], ...rows])}\n\n  ${line}`;
}
