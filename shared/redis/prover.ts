import type { Redis } from "ioredis";
import { settled } from "../platform/time/clock.ts";

export type Sent = string | number | Buffer;

/**
 * A script and its arguments. `words` are the hash, the number of keys, KEYS and ARGV. With "bytes", strings of the reply are
 * Buffers.
 */
export type ScriptCall = {
  readonly lua: string;
  readonly words: Sent[];
  readonly strings: "text" | "bytes";
};

/**
 * Numbers of replicas that can take over, that are connected to the primary, and that confirmed this process's newest write.
 */
export type ReplicaCounts = {
  readonly promotable?: number;
  readonly attached?: number;
  readonly confirmed?: number;
};

/** Runs the scripts of a connection whose writes need a proof beyond the reply. */
export type Prover = {
  /**
   * Resolves with the reply once the writes are proven. Otherwise throws `queue.outcome_unknown`: the writes may be kept or
   * lost.
   */
  run(call: ScriptCall): Promise<unknown>;
  /** Resolves once all writes of all processes so far are proven. Throws like `run`. */
  confirm(): Promise<void>;
  /** Throws the reason if no write can be proven now. */
  check(): Promise<void>;
  /** Counts the primary's replicas. A count that is not known now is absent. */
  replicas(): ReplicaCounts;
  /** Creates a prover for another connection to the same Redis, on which one script runs at a time. */
  over(redis: Redis): Prover;
};

const provers = new WeakMap<Redis, Prover>();

export function proveWith(redis: Redis, prover: Prover | undefined): void {
  if (prover !== undefined) provers.set(redis, prover);
}

/** Returns the prover of a connection; undefined if a reply is proof enough. */
export function proverOf(redis: Redis): Prover | undefined {
  return provers.get(redis);
}

/**
 * Resolves once a failover cannot undo what was read or written before. Throws `queue.outcome_unknown` or
 * `queue.unavailable`.
 */
export async function confirmed(redis: Redis): Promise<void> {
  await proverOf(redis)?.confirm();
}

/** Returns whether a write can probably be proven now. */
export async function canProve(redis: Redis): Promise<boolean> {
  return (await settled(proverOf(redis)?.check() ?? Promise.resolve())).kind === "done";
}

/** Sends a script by its hash (EVALSHA), or in full (EVAL). */
export function send(
  redis: Redis,
  { lua, words, strings }: ScriptCall,
  as: "EVALSHA" | "EVAL",
): Promise<unknown> {
  const sent = as === "EVAL" ? [lua, ...words.slice(1)] : words;
  return strings === "bytes" ? redis.callBuffer(as, sent) : redis.call(as, sent);
}

/** Returns whether Redis did not have the script, so that it ran nothing. */
export function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("NOSCRIPT");
}
