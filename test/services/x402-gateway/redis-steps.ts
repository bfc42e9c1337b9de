import { JOB_PATH } from "../../fixtures/x402.ts";

export type Step = (words: readonly string[]) => boolean;

/** How each step of a paid request for JOB_PATH looks to Redis. */
export const STEPS = {
  /** A look at a known payment; a repeat that waits looks again and again. */
  find: (words) => isScript(words) && words[2] === "2" && words.length === 5,
  claim: (words) => isScript(words) && words.includes(JOB_PATH),
  settled: (words) => isScript(words) && words.includes("SETTLING"),
} as const satisfies Readonly<Record<string, Step>>;

function isScript(words: readonly string[]): boolean {
  return words[0]?.toLowerCase() === "evalsha" || words[0]?.toLowerCase() === "eval";
}
