import { existsSync, readFileSync } from "node:fs";

export type Effect = { callId: string; sha256: string };

/** What the jobs of effect-runner.ts have done so far, in order. */
export function readEffects(file: string): Effect[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Effect);
}
