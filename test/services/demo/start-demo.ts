import { builtEntry, type PosternProcess } from "../../../shared/dev/process.ts";
import type { Postern } from "../../fixtures/postern.ts";

/** A demo takes half a minute, and much longer where others have the processor. */
export const PATIENCE_MS = 300_000;

type Started = { program?: string[]; env?: NodeJS.ProcessEnv };

export function startDemo(
  postern: Postern,
  args: readonly string[],
  { program = builtEntry("services/demo/main.js"), env = {} }: Started = {},
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

/** What was accepted, and what was injected of it. */
export const SUM = /(\d+) accepted = (\d+) injected \+ 0 failed \+ 0 waiting/;

/** The lines of a demo that say what was not so. */
export function notSo(text: string): string[] {
  return text.split("\n").filter((line) => line.startsWith("  NO "));
}
