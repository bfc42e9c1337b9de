import type { Part } from "../../shared/dev/process.ts";
import { type Comparison, compare, comparisonTable } from "../support/compare.ts";
import type { Counts } from "../support/counts.ts";
import { load } from "../support/load.ts";
import { cpuMsOf } from "../support/proc.ts";
import type { Setup } from "../support/setup.ts";
import { inWorld, type World } from "../support/world.ts";

type Round = { perSecond: number; p50Ms: number; p99Ms: number; cpuUs: number; redisUs: number };
type Size = { warmUp: number; calls: number };

export type IngressFigures = Comparison<Round> & Counts;

/** Calls accepted per second: the gateway and the hand-written baseline by turns, on the same Redis. */
export function measureIngress({ quick, nodeArgs }: Setup): Promise<IngressFigures> {
  const size = quick ? { warmUp: 2000, calls: 5000 } : { warmUp: 4000, calls: 16_000 };
  const rounds = quick ? 3 : 7;
  return inWorld(nodeArgs, async (world) => {
    const gateway = await world.startGateway();
    const bare = await world.startBaselineIngress();
    const ours: Round[] = [];
    const baseline: Round[] = [];
    for (let round = 0; round < rounds; round++) {
      ours.push(await oneRound(world, gateway, size));
      baseline.push(await oneRound(world, bare, size));
    }
    await gateway.kill();
    const counts = await countAgain(world, rounds * (size.warmUp + size.calls));
    return { ...compare(ours, baseline), ...counts };
  });
}

/** Throws when a call is not accepted. */
async function oneRound({ redis }: World, server: Part, { warmUp, calls }: Size): Promise<Round> {
  const before = { server: cpuMsOf(server.process.pid), redis: cpuMsOf(redis.pid) };
  const perCall = (ms: number) => (ms * 1000) / (warmUp + calls);
  const { perSecond, p50Ms, p99Ms } = await load({
    address: server.address,
    warmUp,
    calls,
  });
  const cpuUs = perCall(cpuMsOf(server.process.pid) - before.server);
  const redisUs = perCall(cpuMsOf(redis.pid) - before.redis);
  return { perSecond, p50Ms, p99Ms, cpuUs, redisUs };
}

/** Everything accepted is injected now, and counted where it arrives. */
async function countAgain({ sink, startProducer }: World, accepted: number): Promise<Counts> {
  const producer = await startProducer();
  const { calls: counted, duplicates } = await sink.arrived(accepted);
  await producer.kill();
  return { accepted, counted, duplicates };
}

export function ingressTable(figures: IngressFigures): string {
  return comparisonTable(figures, {
    what: "accepted calls",
    name: "gateway",
    columns: [
      ["calls/s", "perSecond"],
      ["p50 ms", "p50Ms"],
      ["p99 ms", "p99Ms"],
      ["cpu µs/call", "cpuUs"],
      ["of Redis", "redisUs"],
    ],
  });
}
