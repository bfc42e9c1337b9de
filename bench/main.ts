import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { drainTable, measureDrain } from "./parts/drain.ts";
import { ingressTable, measureIngress } from "./parts/ingress.ts";
import { measureMemory, memoryTable } from "./parts/memory.ts";
import { buildProcesses } from "./support/build.ts";
import { type Counts, countsLine, lostOf } from "./support/counts.ts";
import { describeMachine, machineLine } from "./support/machine.ts";
import { type BenchOptions, type Part, parseOptions, USAGE } from "./support/options.ts";
import type { Setup } from "./support/setup.ts";

const TARGET = 0.85;

type Measured = { figures: Counts; text: string };

const measure: Readonly<Record<Part, (setup: Setup) => Promise<Measured>>> = {
  async ingress(setup) {
    const figures = await measureIngress(setup);
    return { figures, text: `${ingressTable(figures)}\n\n${ratioLine(figures)}` };
  },
  async drain(setup) {
    const figures = await measureDrain(setup);
    return { figures, text: `${drainTable(figures)}\n\n${ratioLine(figures)}` };
  },
  async memory(setup) {
    const figures = await measureMemory(setup);
    return { figures, text: memoryTable(figures) };
  },
};

function ratioLine({ ratio, lowest, highest }: { ratio: number; lowest: number; highest: number }): string {
  const verdict = ratio >= TARGET ? "met" : "MISSED";
  const [middle, low, high] = [ratio, lowest, highest].map((value) => value.toFixed(3));
  return `  ratio of medians ${middle} (single rounds ${low} to ${high}), target ${TARGET}: ${verdict}`;
}

async function run({ parts, quick, jsonFile, profileDir }: BenchOptions): Promise<number> {
  buildProcesses();
  const machine = describeMachine();
  console.log(machineLine(machine));
  const nodeArgs = profileDir === undefined ? [] : ["--cpu-prof", "--cpu-prof-dir", resolve(profileDir)];
  const all: Record<string, unknown> = { machine, quick };
  let lost = 0;
  for (const part of parts) {
    const { figures, text } = await measure[part]({ quick, nodeArgs });
    all[part] = figures;
    lost += Math.abs(lostOf(figures));
    console.log(`\n${part}\n${text}\n${countsLine(figures)}`);
  }
  if (jsonFile !== undefined) writeFileSync(jsonFile, `${JSON.stringify(all, null, 2)}\n`);
  return lost === 0 ? 0 : 1;
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
