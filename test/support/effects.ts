import { existsSync, readFileSync } from "node:fs";
import { FROM_SOURCE } from "./from-source.ts";

export type Effect = { callId: string; sha256: string };

/** What the jobs of effect-runner.ts have done so far, in order. */
export function readEffects(file: string): Effect[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Effect);
}

/** Node's arguments to run effect-runner.ts from source. */
export function effectRunner(): string[] {
  return [...FROM_SOURCE, new URL("effect-runner.ts", import.meta.url).pathname];
}
