import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { challengeTable, measureChallenge } from "./parts/challenge.ts";
import { drainTable, keptTable, measureDrain } from "./parts/drain.ts";
import { failoverTable, measureFailovers } from "./parts/failover.ts";
import { floodTable, measureFlood } from "./parts/flood.ts";
import { ingressTable, measureIngress } from "./parts/ingress.ts";
import { latencyTable, measureLatency } from "./parts/latency.ts";
import { measureMemory, memoryTable } from "./parts/memory.ts";
import { measurePaid, paidTable } from "./parts/paid.ts";
import { measurePartitions, partitionsTable } from "./parts/partitions.ts";
import { measureSoak, soakTable } from "./parts/soak.ts";
import { buildProcesses, withOtherBuild } from "./support/build.ts";
import { describeMachine, machineLine } from "./support/machine.ts";
import { type Measured, measureAll } from "./support/measure-all.ts";
import { type BenchOptions, type PartName, parseOptions, USAGE } from "./support/options.ts";
import type { Setup } from "./support/setup.ts";

/**
 * Targets: minimum ratios of Postern's rate to the rate of its baseline, such as a hand-written server. Against another
 * build of Postern, the target is `AGAINST_TARGET`. A missed target is shown, but is not a failure.
 */
const TARGETS = {
  ingress: 1.1,
  withIds: 0.9,
  drain: 0.9,
  kept: 0.97,
  challenge: 0.85,
  paid: 1.5,
  partitions: 1.6,
} as const;
const AGAINST_TARGET = 0.97;
const LATENCY = { p50Ms: 3, p99OverFsyncMs: 25 } as const;

const measure: Readonly<Record<PartName, (setup: Setup) => Promise<Measured>>> = {
  async ingress(setup) {
    const figures = await measureIngress(setup);
    const tables = figures.byIds.map(
      (each) =>
        `${ingressTable(each)}\n\n${ratioLine(each, targetOf(each.withIds ? "withIds" : "ingress", setup))}`,
    );
    return { figures, counts: figures, text: tables.join("\n\n") };
  },
  async drain(setup) {
    const figures = await measureDrain(setup);
    const { byJobs, kept } = figures;
    const target = targetOf("drain", setup);
    const tables = byJobs.map((each) => `${drainTable(each)}\n\n${ratioLine(each, target)}`);
    if (kept !== undefined) tables.push(`${keptTable(kept)}\n\n${ratioLine(kept, TARGETS.kept)}`);
    return { figures, counts: figures, text: tables.join("\n\n") };
  },
  async latency(setup) {
    const figures = await measureLatency(setup);
    const { p50Ms, p99OverFsyncMs } = figures.byRate[0].ours;
    const isMet = p50Ms < LATENCY.p50Ms && p99OverFsyncMs < LATENCY.p99OverFsyncMs;
    const line =
      `  at half of the highest rate p50 ${p50Ms.toFixed(2)} ms, target ${LATENCY.p50Ms}; ` +
      `p99 ${p99OverFsyncMs.toFixed(1)} ms above the p99 of one fsync, target ${LATENCY.p99OverFsyncMs}: ` +
      (isMet ? "met" : "MISSED");
    return { figures, counts: figures, text: `${latencyTable(figures)}\n\n${line}` };
  },
  async memory(setup) {
    const figures = await measureMemory(setup);
    return { figures, text: memoryTable(figures) };
  },
  async soak(setup) {
    const figures = await measureSoak(setup);
    return { figures, counts: figures, failures: figures.failures, text: soakTable(figures) };
  },
  async challenge(setup) {
    const figures = await measureChallenge(setup);
    const text = `${challengeTable(figures)}\n\n${ratioLine(figures, targetOf("challenge", setup))}`;
    return { figures, text };
  },
  async paid(setup) {
    const figures = await measurePaid(setup);
    const text = `${paidTable(figures)}\n\n${ratioLine(figures, targetOf("paid", setup))}`;
    return { figures, counts: figures, text };
  },
  async flood(setup) {
    const figures = await measureFlood(setup);
    return { figures, failures: figures.failures, text: floodTable(figures) };
  },
  async partitions(setup) {
    const figures = await measurePartitions(setup);
    const { ratio } = figures;
    const verdict = ratio >= TARGETS.partitions ? "met" : "MISSED";
    const line = `  adds with 2 partitions on 2 masters to adds with 1 on 1, each Redis with a share of a core: ratio ${ratio.toFixed(3)}, target ${TARGETS.partitions}: ${verdict}`;
    return { figures, text: `${partitionsTable(figures)}\n\n${line}` };
  },
  async failover(setup) {
    const figures = await measureFailovers(setup);
    return { figures, failures: figures.failures, text: failoverTable(figures) };
  },
};

function targetOf(part: keyof typeof TARGETS, { against }: Setup): number {
  return against === undefined ? TARGETS[part] : AGAINST_TARGET;
}

type Ratios = { ratio: number; lowest: number; highest: number };

function ratioLine({ ratio, lowest, highest }: Ratios, target: number): string {
  const verdict = ratio >= target ? "met" : "MISSED";
  const [middle, low, high] = [ratio, lowest, highest].map((value) => value.toFixed(3));
  return `  median ratio ${middle} (single rounds ${low} to ${high}), target ${target}: ${verdict}`;
}

async function run({ parts, quick, jsonFile, profileDir, rates, against }: BenchOptions): Promise<number> {
  await buildProcesses();
  const machine = describeMachine();
  console.log(machineLine(machine));
  const nodeArgs = profileDir === undefined ? [] : ["--cpu-prof", "--cpu-prof-dir", resolve(profileDir)];
  const { figures, failed } = await withOtherBuild(against, (clone) => {
    if (against !== undefined) console.log(`The baseline is the build of ${against}.`);
    const setup = { quick, rounds: quick ? 3 : 7, nodeArgs, rates, against: clone };
    return measureAll(
      parts.map((part) => [part, () => measure[part](setup)] as const),
      console.log,
    );
  });
  const all = { machine, quick, ...figures };
  if (jsonFile !== undefined) writeFileSync(jsonFile, `${JSON.stringify(all, null, 2)}\n`);
  return failed === 0 ? 0 : 1;
}

function readOptions(): BenchOptions | undefined {
  try {
    return parseOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return undefined;
  }
}

const options = readOptions();
if (options === undefined) process.exitCode = 2;
else if (options.help) console.log(USAGE);
else process.exitCode = await run(options);
