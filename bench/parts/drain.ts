import { load } from "../support/load.ts";
import type { LoggedProcess } from "../support/logged-process.ts";
import type { Setup } from "../support/setup.ts";
import { median, type Ratio, ratioOf } from "../support/statistics.ts";
import { table } from "../support/table.ts";
import { inWorld, type World } from "../support/world.ts";

type Round = { perSecond: number; cpuUs: number };
type Side = Round & { rounds: Round[] };

export type DrainFigures = Ratio & {
  ours: Side;
  baseline: Side;
  accepted: number;
  counted: number;
  duplicates: number;
};

type Size = { warmUp: number; calls: number };
type Counts = { accepted: number; counted: number; duplicates: number };

/** Calls injected per second: a producer and the hand-written baseline by turns, each on a queue filled beforehand. */
export function measureDrain({ quick, nodeArgs }: Setup): Promise<DrainFigures> {
  const size = quick ? { warmUp: 2000, calls: 5000, rounds: 3 } : { warmUp: 4000, calls: 20_000, rounds: 5 };
  return inWorld(nodeArgs, async (world) => {
    const counts: Counts = { accepted: 0, counted: 0, duplicates: 0 };
    const ours: Round[] = [];
    const baseline: Round[] = [];
    for (let round = 0; round < size.rounds; round++) {
      await fill(await world.startGateway(), size);
      ours.push(await drain(world, world.startProducer, { size, counts }));
      await fill(await world.startBaselineIngress(), size);
      baseline.push(await drain(world, world.startBaselineDrain, { size, counts }));
    }
    return {
      ...ratioOf(ours.map(rate), baseline.map(rate)),
      ours: toSide(ours),
      baseline: toSide(baseline),
      ...counts,
    };
  });
}

async function fill(ingress: LoggedProcess, { warmUp, calls }: Size): Promise<void> {
  await load({ address: String(ingress.started["address"]), warmUp: 0, calls: warmUp + calls });
  await ingress.stop();
}

/** A fresh process each time; what it does while its code is still cold is not measured. */
async function drain(
  { sink }: World,
  start: () => Promise<LoggedProcess>,
  { size: { warmUp, calls }, counts }: { size: Size; counts: Counts },
): Promise<Round> {
  await sink.reset();
  const worker = await start();
  const { duplicates } = await sink.arrived(warmUp + calls);
  const seen = await sink.count(warmUp);
  const cpuUs = (worker.cpuMs() * 1000) / (warmUp + calls);
  await worker.stop();
  counts.accepted += warmUp + calls;
  counts.counted += seen.calls;
  counts.duplicates += duplicates;
  return { perSecond: seen.perSecond, cpuUs };
}

const rate = ({ perSecond }: Round) => perSecond;

function toSide(rounds: Round[]): Side {
  const of = (key: keyof Round) => median(rounds.map((round) => round[key]));
  return { perSecond: of("perSecond"), cpuUs: of("cpuUs"), rounds };
}

export function drainTable({ ours, baseline }: DrainFigures): string {
  const line = (name: string, { perSecond, cpuUs }: Round) => [name, perSecond, cpuUs];
  const rounds = (name: string, side: Side) => side.rounds.map((round, i) => line(`  ${name} ${i + 1}`, round));
  return table(
    ["injected calls", "calls/s", "cpu µs/call"],
    [
      line("producer", ours),
      line("baseline", baseline),
      ...rounds("producer", ours),
      ...rounds("baseline", baseline),
    ],
  );
}
