import { builtEntry, type PosternProcess } from "../../../../shared/dev/process.ts";
import type { Postern } from "../../../fixtures/postern.ts";

/** Timeout. A demo takes half a minute, and much longer on a busy machine. */
export const PATIENCE_MS = 300_000;

type Started = { program?: string[]; env?: NodeJS.ProcessEnv };

export function startDemo(
  postern: Postern,
  args: readonly string[],
  { program = builtEntry("services/dev/demo/main.js"), env = {} }: Started = {},
): { demo: PosternProcess; text(): string } {
  const lines: string[] = [];
  const demo = postern.start(args, {
    entry: program,
    env,
    lastSignal: "SIGTERM",
    onLine: (line) => lines.push(line),
  });
  return { demo, text: () => lines.join("\n") };
}

/** Matches the sum of accepted and completed calls. */
export const SUM = /^ {2}ok {2}It adds up: (\d+) calls = \1 run \+ 0 failed \+ 0 waiting/m;

/** Returns the lines of a demo that report something wrong. */
export function wrongIn(text: string): string[] {
  return text.split("\n").filter((line) => line.startsWith("  NO "));
}
