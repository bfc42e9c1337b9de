import type { Redis } from "ioredis";
import { settled } from "../platform/time/clock.ts";

export type Sent = string | number | Buffer;

/**
 * A script and its arguments. `words` are the script's hash, the number of keys, KEYS and ARGV. With "bytes", strings in the
 * reply are returned as Buffers.
 */
export type ScriptCall = {
  readonly lua: string;
  readonly words: Sent[];
  readonly strings: "text" | "bytes";
};

/**
 * Numbers of replicas: those that can take over from the primary (`promotable`), those that are connected to it (`attached`),
 * and those that have confirmed this process's newest write (`confirmed`).
 */
export type ReplicaCounts = {
  readonly promotable?: number;
  readonly attached?: number;
  readonly confirmed?: number;
};

/**
 * Runs the scripts of a connection and proves their writes. It is used if Redis' reply is not enough proof, because a
 * failover could lose what only the primary has (replicated-writes.ts).
 */
export type Prover = {
  /**
   * Resolves with the script's reply once its writes are proven. Throws `queue.outcome_unknown` if that fails: the writes may
   * be kept or lost.
   */
  run(call: ScriptCall): Promise<unknown>;
  /** Resolves once all writes that this Redis has received so far, from any process, are proven. Throws like `run`. */
  confirm(): Promise<void>;
  /** Throws the reason if no write can be proven now. */
  check(): Promise<void>;
  /** Counts the primary's replicas. A count that is not known now is absent. */
  replicas(): ReplicaCounts;
  /** Creates a prover for another connection to the same Redis, on which only one script runs at a time. */
  over(redis: Redis): Prover;
};

const provers = new WeakMap<Redis, Prover>();

export function proveWith(redis: Redis, prover: Prover | undefined): void {
  if (prover !== undefined) provers.set(redis, prover);
}

/** Returns the prover of a connection. Undefined if Redis' reply is proof enough. */
export function proverOf(redis: Redis): Prover | undefined {
  return provers.get(redis);
}

/**
 * Resolves once a failover can no longer undo what was read or written on this Redis before. Throws `queue.outcome_unknown`
 * or `queue.unavailable`.
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
