import { join } from "node:path";
import { rssBytesOf } from "../../../bench/support/proc.ts";
import { quantile } from "../../../bench/support/statistics.ts";
import type { Part, PosternProcess } from "../../../shared/dev/process.ts";
import { readinessUrl } from "../../../shared/dev/stack.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import {
  type Attack,
  type Clients,
  type HonestFigures,
  type HonestPlan,
  type HostileFigures,
  type HostilePlan,
  writePlan,
} from "./plans.ts";
import { DIFFICULTY, type FloodWorld, PROXY } from "./world.ts";

/** Limit on the memory of a gateway with default settings under a flood; docs/operations/limits.md names it. */
export const RSS_MIB_MAX = 704;
/** Share of the honest clients' requests that must be served during every flood. */
export const SERVED_SHARE_MIN = 0.9;

const HONEST_SCRIPT = new URL("./honest.ts", import.meta.url);
const HOSTILE_SCRIPT = new URL("./hostile.ts", import.meta.url);

const HOSTILE = 300;
/** Number of idle connections. A fifth of them send nothing, and the others still exceed the slots for new payments. */
const IDLE = 1280;

export type Round = {
  name: string;
  /** The attack during the round; undefined for none. */
  attack: Attack | undefined;
  hostile: Clients;
  honest: Clients;
};

/** Makes a round with its own client addresses, so that limits of an earlier round do not count in it. */
function direct(name: string, attack: Attack, block: number): Round {
  return { name, attack, hostile: { from: addresses(`127.${10 + block}.0`, 7) }, honest: HONEST };
}

function addresses(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}.${1 + i}`);
}

const behindProxy = (forwardedFor: readonly string[]): Clients => ({ from: [PROXY], forwardedFor });

/** Honest clients, each from its own address. */
const HONEST: Clients = { from: addresses("127.1.0", 25) };

/** A round with honest clients only, for comparison. */
export const CALM: Round = { name: "nothing", attack: undefined, hostile: HONEST, honest: HONEST };

export const FLOODS: readonly Round[] = [
  direct("a fresh key without money for each request", "fresh-keys", 0),
  {
    name: "the same, all behind a trusted proxy",
    attack: "fresh-keys",
    hostile: behindProxy(addresses("198.51.100", 7)),
    honest: behindProxy(addresses("203.0.113", 25)),
  },
  {
    name: "the same from the honest payers' own address",
    attack: "fresh-keys",
    hostile: behindProxy(["192.0.2.1"]),
    honest: behindProxy(["192.0.2.1"]),
  },
  direct("one header without money, replayed", "one-header", 1),
  direct("repeats of a paid 1 MB, half of them changed", "repeats", 2),
  direct("copies of one good payment after the other, with 1 MB each", "copies", 3),
  direct("idle connections", "idle", 4),
  direct("dry-runs, half of them of 1 MB", "dry-runs", 5),
  direct("wrong callers' proofs with 1 MB each", "caller-proofs", 6),
  direct("wrong proofs of work", "work-proofs", 7),
];

export type RoundFigures = {
  name: string;
  hostilePerSec: number;
  /** Answers to hostile clients. `cut` connections ended without an answer. */
  hostileStatuses: Record<string, number>;
  asked: number;
  served: number;
  share: number;
  /** Duration of served purchases, from the request for the price to the answer to the payment. */
  p50Ms: number;
  p99Ms: number;
  refusals: Record<string, number>;
  peakRssMib: number;
  /** Number of answers of `/readyz`, by status or error. */
  readyz: Record<string, number>;
};

/**
 * Measures one round. The honest clients send for `durationMs`. The flood begins before them, and ends after the last
 * of them is answered.
 */
export async function measureRound(
  world: FloodWorld,
  round: Round,
  durationMs: number,
): Promise<RoundFigures> {
  const { name, attack, honest } = round;
  const isOfPricing = attack === "work-proofs";
  const target = isOfPricing ? world.pricing : world.gateway;
  const address = isOfPricing ? world.pricingHttp : world.gateway.address;
  const plan: HonestPlan = {
    wants: isOfPricing ? "quote" : "pay",
    ...{ address, durationMs, keys: world.payers, difficulty: DIFFICULTY, ...honest },
  };
  const [clients, flood] = await Promise.all([
    startHonest(world, plan),
    attack && startHostile(world, address, round, attack),
  ]);
  const watched = watch(target);
  process.kill(clients.pid, "SIGUSR2");
  const ended = await clients.waitForEvent("honest.ended");
  const { asked, served, ms, refusals } = ended as unknown as HonestFigures;
  const { peakRssMib, readyz } = await watched.stop();
  const hostile = await (flood && endHostile(flood));
  return {
    ...{ name, asked, served, refusals, peakRssMib, readyz },
    share: served / asked,
    p50Ms: quantile(ms, 0.5),
    p99Ms: quantile(ms, 0.99),
    hostilePerSec: hostile === undefined ? 0 : (hostile.answered * 1000) / hostile.ms,
    hostileStatuses: hostile === undefined ? {} : { ...hostile.statuses, cut: hostile.cut },
  };
}

async function startHonest(world: FloodWorld, plan: HonestPlan): Promise<PosternProcess> {
  const honest = world.start(HONEST_SCRIPT, [writePlan(join(world.dir, "honest.json"), plan)]);
  await honest.waitForEvent("honest.ready");
  return honest;
}

async function startHostile(
  world: FloodWorld,
  address: string,
  round: Round,
  attack: Attack,
): Promise<PosternProcess> {
  const { required, requiredOfRestricted, pool, known, fundedKey, dir } = world;
  const turn = FLOODS.indexOf(round) / FLOODS.length;
  const plan: HostilePlan = {
    ...{ attack, address, ...round.hostile, connections: attack === "idle" ? IDLE : HOSTILE },
    ...{ required, requiredOfRestricted, pool, turn, known, fundedKey },
  };
  const hostile = world.start(HOSTILE_SCRIPT, [writePlan(join(dir, "hostile.json"), plan)]);
  await hostile.waitForEvent("hostile.started");
  return hostile;
}

async function endHostile(hostile: PosternProcess): Promise<HostileFigures> {
  await hostile.kill("SIGTERM");
  return (await hostile.waitForEvent("hostile.ended")) as unknown as HostileFigures;
}

/** Describes what is wrong with a round. */
export function faultsIn({ name, share, peakRssMib, readyz, refusals }: RoundFigures): string[] {
  const faults: string[] = [];
  if (!(share >= SERVED_SHARE_MIN)) {
    const served = `${(share * 100).toFixed(0)} % are served, not ${SERVED_SHARE_MIN * 100} %`;
    faults.push(`${name}: ${served} (${JSON.stringify(refusals)})`);
  }
  if (!(peakRssMib <= RSS_MIB_MAX))
    faults.push(`${name}: ${peakRssMib.toFixed(0)} MiB of memory, more than ${RSS_MIB_MAX}`);
  if (Object.keys(readyz).join() !== "200") faults.push(`${name}: /readyz answers ${JSON.stringify(readyz)}`);
  return faults;
}

const SAMPLE_MS = 50;
const PROBE_MS = 250;

/** Reads a process's memory and its readiness probe, until `stop`. */
function watch(part: Part) {
  const { pid } = part.process;
  const ended = new AbortController();
  const readyz: Record<string, number> = {};
  let peak = 0;
  const sampling = setInterval(() => {
    peak = Math.max(peak, rssBytesOf(pid));
  }, SAMPLE_MS);
  const probing = (async () => {
    while (!ended.signal.aborted) {
      const told = await fetch(readinessUrl(part)).then(
        (answer) => answer.arrayBuffer().then(() => String(answer.status)),
        (error: Error) => error.name,
      );
      readyz[told] = (readyz[told] ?? 0) + 1;
      await delay(PROBE_MS, ended.signal).catch(() => {});
    }
  })();
  return {
    async stop() {
      ended.abort();
      clearInterval(sampling);
      await probing;
      return { peakRssMib: peak / 1024 ** 2, readyz };
    },
  };
}
