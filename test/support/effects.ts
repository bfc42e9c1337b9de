import { existsSync, readFileSync } from "node:fs";

export type Effect = { callId: string; sha256: string };

/** Returns the effects of effect-runner.ts's jobs so far, in order. */
export function readEffects(file: string): Effect[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Effect);
}
