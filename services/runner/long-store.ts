import { defineScript, type Reply } from "../../shared/redis/define-script.ts";
import { bytes, flag, integer, numeric, oneOf, optional, text, tuple } from "../../shared/redis/reply.ts";
import { durableScript, type StoreOptions } from "./call-store.ts";
import claimLongLua from "./claim-long.lua";
import { createReadDue } from "./due.ts";
import releaseLua from "./release.lua";
import { longCallAnswer } from "./remembered-answer.ts";
import type { JobRequest } from "./router.ts";
import runAgainLua from "./run-again.lua";
import storeLongLua from "./store-long.lua";

const STORE = defineScript({
  source: storeLongLua,
  keys: "call, calls, due",
  args: "id, owner, status, input, inputType, metadata, traceparent",
  proof: "needed",
  reply: flag,
});

/** Decoder for a claimed call. */
const CLAIMED = tuple(
  ...[numeric, bytes, text, optional(text), optional(text)],
  ...[optional(text), optional(numeric), integer],
);

const CLAIM = defineScript({
  source: claimLongLua,
  keys: "call, due",
  args: "id, owner, leaseMs",
  proof: "needed",
  strings: "bytes",
  reply: optional(CLAIMED),
});

const RELEASE = defineScript({
  source: releaseLua,
  keys: "call, due",
  args: "id, owner, pauseMs, attempts",
  proof: "needed",
  reply: flag,
});

const RUN_AGAIN = defineScript({
  source: runAgainLua,
  keys: "call, due, delivery, deliveries",
  args: "id, status",
  proof: "needed",
  reply: oneOf("STORED", "UNKNOWN", "WAITING", "RUNNING", "DONE", "SHORT"),
});

/** A long call that this runner claimed in order to run it. */
export type StoredCall = {
  readonly request: JobRequest;
  readonly bytes: number;
  readonly sha256: string;
  /** Number of runs that ended with an error. */
  readonly attemptsFailed: number;
  /** Number of claims of the call, including this one. If it is above 1, an earlier run was interrupted or failed. */
  readonly runs: number;
};

/**
 * Outcome of `runAgain`. STORED: the call will run again. Any other value is the state because of which it will not. SHORT:
 * it is a short call, whose input is not stored.
 */
type RunAgainResult = "STORED" | "UNKNOWN" | "WAITING" | "RUNNING" | "DONE" | "SHORT";

export type LongStore = ReturnType<typeof createLongStore>;

/**
 * Creates the store that keeps long calls with their input until they are done. Every method runs one atomic script, and its
 * write is on disk when it resolves. The store does not repeat a failed write. It throws `runner.store_unavailable`; the
 * write may then have happened or not.
 */
export function createLongStore({ durable, keys, owner, leaseMs }: StoreOptions) {
  const store = durableScript(durable, STORE);
  const claim = durableScript(durable, CLAIM);
  const release = durableScript(durable, RELEASE);
  const runAgain = durableScript(durable, RUN_AGAIN);
  const placesOf = (id: string) => ({ call: keys.call(id), due: keys.due });

  return {
    /** Stores a long call that this runner has begun. Resolves with false if the call now belongs to another runner. */
    async store(request: JobRequest): Promise<boolean> {
      const { callId: id, body, contentType: inputType, traceparent } = request;
      const [input, metadata] = [body.toString("base64"), JSON.stringify(request.metadata)];
      const { status } = longCallAnswer(id);
      const words = { id, owner, status, input, inputType, metadata, traceparent };
      return store({ call: keys.call(id), calls: keys.calls, due: keys.due }, words);
    },

    /** Reads the calls that are due or whose lease has expired. */
    due: createReadDue(durable.redis, keys.due),

    /** Claims a due call under a lease; undefined if another runner was faster. */
    async claim(id: string): Promise<StoredCall | undefined> {
      const claimed = await claim(placesOf(id), { id, owner, leaseMs });
      return claimed && toStoredCall(id, claimed);
    },

    /** Releases a call, so that any runner may claim it after the pause. Changes nothing if another runner has it. */
    async release(id: string, pauseMs: number, attemptsFailed: number): Promise<void> {
      await release(placesOf(id), { id, owner, pauseMs, attempts: attemptsFailed });
    },

    /**
     * Gives a FAILED long call a new set of attempts. The first of them is due immediately. A call in any other state is not
     * changed.
     */
    async runAgain(id: string): Promise<RunAgainResult> {
      const { delivery, deliveries } = keys;
      const touched = { ...placesOf(id), delivery: delivery(id), deliveries };
      return runAgain(touched, { id, status: longCallAnswer(id).status });
    },
  };
}

function toStoredCall(callId: string, claimed: NonNullable<Reply<typeof CLAIM>>): StoredCall {
  const [job, sha256, input, inputType, metadata = "{}", traceparent, attempts, runs] = claimed;
  const body = Buffer.from(input, "base64");
  return {
    request: {
      callId,
      jobId: job,
      body,
      contentType: inputType || undefined,
      metadata: JSON.parse(metadata) as Record<string, string>,
      traceparent: traceparent || undefined,
    },
    bytes: body.length,
    sha256: sha256.toString("hex"),
    attemptsFailed: attempts ?? 0,
    runs,
  };
}
