import { readFileSync, writeFileSync } from "node:fs";
import type { Hex } from "../../../services/dev/chain/chain.ts";

/** What hostile clients do, over and over. */
export const ATTACKS = [
  "fresh-keys",
  "one-header",
  "repeats",
  "copies",
  "idle",
  "dry-runs",
  "caller-proofs",
  "work-proofs",
] as const;
export type Attack = (typeof ATTACKS)[number];

/** What tells one client of a round from another. */
export type Clients = {
  /** Where their connections come from, by turns. */
  from: readonly string[];
  /** What a proxy would say of them, by turns; nothing without it. */
  forwardedFor?: readonly string[];
};

export type HostilePlan = Clients & {
  attack: Attack;
  /** `host:port` of what is attacked. */
  address: string;
  connections: number;
  /** The value of PAYMENT-REQUIRED of the job that anybody may buy. */
  required: string;
  /** The same of the job that wants a caller's proof. */
  requiredOfRestricted: string;
  /** A file with a payment in each line, each of another payer without money. */
  pool: string;
  /** After which part of the pool to begin, so that the rounds do not begin with the same payments. */
  turn: number;
  /** A payment that has settled, and its body's size. */
  known: string;
  /** Of somebody with money, who pays nothing but for what he sends copies of. */
  fundedKey: Hex;
};

export type HonestPlan = Clients & {
  /** `pay` buys a job; `quote` asks the pricing engine for its price. */
  wants: "pay" | "quote";
  address: string;
  keys: readonly Hex[];
  /** How long each begins anew; what was begun is waited for. */
  durationMs: number;
  difficulty: number;
};

/** What was answered to hostile clients, by status, while `ms` went by. */
export type HostileFigures = { answered: number; ms: number; statuses: Record<string, number>; cut: number };

export type HonestFigures = {
  asked: number;
  served: number;
  /** Of what was served. */
  ms: number[];
  /** Of what was not: by status and code, or by error. */
  refusals: Record<string, number>;
};

export const JOB_PATH = "/x402/jobs/1/7";
/** Wants the proof of a delegated caller. */
export const RESTRICTED_PATH = "/x402/jobs/1/9";

/** Of every large request. */
export const LARGE_BYTES = 1_000_000;
export const LARGE_BODY_BYTE = "x";

/** Processes are told what to do by a file. */
export function writePlan(file: string, plan: HostilePlan | HonestPlan): string {
  writeFileSync(file, JSON.stringify(plan));
  return file;
}

export function readPlan<Plan extends HostilePlan | HonestPlan>(): Plan {
  return JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as Plan;
}

/** One line that the parent reads. */
export function tell(event: string, fields: object = {}): void {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
}
