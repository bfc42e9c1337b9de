import { JOB_PATH } from "../../fixtures/x402.ts";

export type Step = (words: readonly string[]) => boolean;

/** Matches the Redis command of each step of a paid request for JOB_PATH. */
export const STEPS = {
  /** Reads a known payment. A waiting repeat reads it again and again. */
  find: (words) => isScript(words) && words[2] === "2" && words.length === 5,
  claim: (words) => isScript(words) && words.includes(JOB_PATH),
  settled: (words) => isScript(words) && words.includes("SETTLING"),
} as const satisfies Readonly<Record<string, Step>>;

function isScript(words: readonly string[]): boolean {
  return words[0]?.toLowerCase() === "evalsha" || words[0]?.toLowerCase() === "eval";
}
