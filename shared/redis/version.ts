import { AppError } from "../errors/app-error.ts";

/**
 * The versions of what is stored under the keys (keys.ts): the one that this release writes, and the latest that it reads. Each
 * is a field `v` of the hash, the stream's entry or the JSON. Whoever adds a field leaves the version alone, since every release
 * keeps fields that it does not know; whoever changes what a field means raises it.
 */
export const VERSIONS = {
  /** A JobCall, in BullMQ's job and in a payment. */
  call: 1,
  /** That of a paid call, which says whether an attempt may have had an effect, and what became of a refund. */
  record: 2,
  attempt: 1,
  failedHead: 1,
  result: 1,
  /** That of a payment with an idempotency key, which has to be let go of with it, or by Permit2. */
  payment: 2,
  identifier: 1,
  refund: 1,
  rate: 1,
  rateHistory: 1,
  proof: 2,
  rejected: 1,
  opened: 1,
  audit: 1,
  series: 1,
  callHistory: 1,
  process: 1,
  run: 1,
  runnerCall: 2,
  runnerDelivery: 1,
} as const;

/** The record of a call that nobody paid for, or that has ended: releases that know of no refunds read it. */
export const PLAIN_RECORD = 1;

/** A payment by EIP-3009 without an idempotency key: releases that know of nothing else read it. */
export const PLAIN_PAYMENT = 1;

type Versioned = keyof typeof VERSIONS;

/** Whether a later release wrote this. `v` is what was stored; the first releases may have stored none. */
export function isNewer(thing: Versioned, v: unknown): boolean {
  return Number(v ?? 1) > VERSIONS[thing];
}

/** How the error begins that a script answers with instead. */
const NEWER = "NEWER";

/** `record.newer` if a script found what a later release wrote, and refused to change it; any other error as it is. */
export function fromScript(error: unknown): unknown {
  return error instanceof Error && error.message.startsWith(`${NEWER} `) ? newer(error) : error;
}

/** The error of whoever finds what a later release wrote. It leaves it alone. */
export function newer(cause?: unknown): AppError {
  const reason = "a later release wrote this, and only that one can read or change it";
  return new AppError("record.newer", { reason, retryAfterMs: 30_000, cause });
}

export function isNewerError(error: unknown): boolean {
  return error instanceof AppError && error.code === "record.newer";
}
