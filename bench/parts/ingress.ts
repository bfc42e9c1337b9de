import type { LoadResult } from "../processes/load-protocol.ts";
import { load } from "../support/load.ts";
import type { LoggedProcess } from "../support/logged-process.ts";
import type { Setup } from "../support/setup.ts";
import { median, type Ratio, ratioOf } from "../support/statistics.ts";
import { table } from "../support/table.ts";
import { inWorld, type World } from "../support/world.ts";

type Round = { perSecond: number; p50Ms: number; p99Ms: number; cpuUs: number };
type Side = Round & { rounds: Round[] };

export type IngressFigures = Ratio & {
  ours: Side;
  baseline: Side;
  accepted: number;
  counted: number;
  duplicates: number;
};

/** Calls accepted per second: the gateway and the hand-written baseline by turns, on the same Redis. */
export function measureIngress({ quick, nodeArgs }: Setup): Promise<IngressFigures> {
  const size = quick ? { warmUp: 2000, calls: 5000, rounds: 3 } : { warmUp: 4000, calls: 16_000, rounds: 7 };
  return inWorld(nodeArgs, async (world) => {
    const gateway = await world.startGateway();
    const bare = await world.startBaselineIngress();
    const ours: Round[] = [];
    const baseline: Round[] = [];
    let accepted = 0;
    for (let round = 0; round < size.rounds; round++) {
      const [figures, result] = await oneRound(gateway, size);
      accepted += result.accepted;
      ours.push(figures);
      baseline.push((await oneRound(bare, size))[0]);
    }
    await gateway.stop();
    return {
      ...ratioOf(ours.map(rate), baseline.map(rate)),
      ours: toSide(ours),
      baseline: toSide(baseline),
      accepted,
      ...(await countAgain(world, accepted)),
    };
  });
}

async function oneRound(
  server: LoggedProcess,
  { warmUp, calls }: { warmUp: number; calls: number },
): Promise<[Round, LoadResult]> {
  const cpuBefore = server.cpuMs();
  const result = await load({ address: String(server.started["address"]), warmUp, calls });
  const { perSecond, p50Ms, p99Ms } = result;
  const cpuUs = ((server.cpuMs() - cpuBefore) * 1000) / (warmUp + calls);
  return [{ perSecond, p50Ms, p99Ms, cpuUs }, result];
}

/** Everything accepted is injected now, and counted where it arrives. */
async function countAgain({ sink, startProducer }: World, accepted: number) {
  const producer = await startProducer();
  const { calls, duplicates } = await sink.arrived(accepted);
  await producer.stop();
  return { counted: calls, duplicates };
}

const rate = ({ perSecond }: Round) => perSecond;

function toSide(rounds: Round[]): Side {
  const of = (key: keyof Round) => median(rounds.map((round) => round[key]));
  return { perSecond: of("perSecond"), p50Ms: of("p50Ms"), p99Ms: of("p99Ms"), cpuUs: of("cpuUs"), rounds };
}

export function ingressTable({ ours, baseline }: IngressFigures): string {
  const line = (name: string, { perSecond, p50Ms, p99Ms, cpuUs }: Round) => [name, perSecond, p50Ms, p99Ms, cpuUs];
  const rounds = (name: string, side: Side) => side.rounds.map((round, i) => line(`  ${name} ${i + 1}`, round));
  return table(
    ["accepted calls", "calls/s", "p50 ms", "p99 ms", "cpu µs/call"],
    [
      line("gateway", ours),
      line("baseline", baseline),
      ...rounds("gateway", ours),
      ...rounds("baseline", baseline),
    ],
  );
}
