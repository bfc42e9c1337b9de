import { readFileSync, writeFileSync } from "node:fs";
import type { Hex } from "../../../services/dev/chain/chain.ts";

/** Kinds of attacks, each of which a hostile client repeats. */
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

/** Distinguishes the clients of a round. */
export type Clients = {
  /** Source addresses of their connections, used in turn. */
  from: readonly string[];
  /** Client addresses that a proxy would report, used in turn; absent without a proxy. */
  forwardedFor?: readonly string[];
};

export type HostilePlan = Clients & {
  attack: Attack;
  /** `host:port` of the attacked server. */
  address: string;
  connections: number;
  /** Value of PAYMENT-REQUIRED of the job that anyone may buy. */
  required: string;
  /** Value of PAYMENT-REQUIRED of the job that needs a caller's proof. */
  requiredOfRestricted: string;
  /** A file with a payment in each line, each of a different payer without money. */
  pool: string;
  /** Start in the pool, as a fraction of its length, so that rounds do not begin with the same payments. */
  turn: number;
  /** A settled payment, and the size of its body. */
  known: string;
  /** Key of a payer with money. Only the attack `copies` makes it pay. */
  fundedKey: Hex;
};

export type HonestPlan = Clients & {
  /** `pay` buys a job; `quote` asks the pricing engine for its price. */
  wants: "pay" | "quote";
  address: string;
  keys: readonly Hex[];
  /** Time during which each client starts new purchases. Purchases in flight at its end are completed. */
  durationMs: number;
  difficulty: number;
};

/** Answers to hostile clients by status, and the time in ms over which they were counted. */
export type HostileFigures = { answered: number; ms: number; statuses: Record<string, number>; cut: number };

export type HonestFigures = {
  asked: number;
  served: number;
  /** Durations of the served requests. */
  ms: number[];
  /** Number of unserved requests, by status and code, or by error. */
  refusals: Record<string, number>;
};

export const JOB_PATH = "/x402/jobs/1/7";
/** Path of the job that needs the proof of a delegated caller. */
export const RESTRICTED_PATH = "/x402/jobs/1/9";

/** Size of the body of a large request. */
export const LARGE_BYTES = 1_000_000;
export const LARGE_BODY_BYTE = "x";

/** Writes the plan for a process to a file. */
export function writePlan(file: string, plan: HostilePlan | HonestPlan): string {
  writeFileSync(file, JSON.stringify(plan));
  return file;
}

export function readPlan<Plan extends HostilePlan | HonestPlan>(): Plan {
  return JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as Plan;
}

/** Prints one line that the parent process reads. */
export function printEvent(event: string, fields: object = {}): void {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
}
