import { type JobCall, storedBytes, toJson } from "../../shared/call/job-call.ts";
import { jobKeyOf } from "../../shared/call/job-ids.ts";
import { type RecordState, type RefundState, toState } from "../../shared/call/record-state.ts";
import { answerOf, QUEUE_CONSTANTS } from "../../shared/queue/lua-constants.ts";
import { queueOf } from "../../shared/queue/queue-name.ts";
import { Batches } from "../../shared/redis/batches.ts";
import { defineScript } from "../../shared/redis/define-script.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { list, text } from "../../shared/redis/reply.ts";
import { byLane, type Lane } from "../../shared/redis/retry-write.ts";
import enqueueLua from "./enqueue.lua";

/** Values that a call's record in Redis stores, so that repeats of the call are recognised. */
export type Idempotency = {
  /**
   * Id of the request that brings the call; the call's record stores the id of the request that created it. If Redis'
   * reply is lost, the request writes again with the same id. The result is then `new`, and not `known` as for a
   * repeat.
   */
  by: string;
  /** Hash of the body. A repeat's body must have the same hash. */
  bodySha256: string;
  /** Retention time of the record after the call's end, in ms. */
  windowMs: number;
};

/** States of a call without a payment. Such a call is never refunded. */
export type UnpaidState = Exclude<RecordState, RefundState>;

/**
 * Result of adding a call. It is `conflict` if a call with the same id and another body is known. For a known call,
 * `job` is the key of the job for which the call was queued. The configuration may since have given its endpoint
 * another job.
 */
export type Enqueued =
  | { kind: "new" }
  | { kind: "known"; state: UnpaidState; job?: string }
  | { kind: "conflict" };

/**
 * Adds a call to the queue of its job, unless `idempotency` shows that it is known. Resolves once Redis has replied.
 * Without `idempotency` the result is always `new`. That includes a call that is already in its queue, which is not
 * added again. `heldAt` is the path of the call's endpoint, if an operator holds the endpoint. Throws `record.unreadable`.
 */
export type Enqueue = (
  call: JobCall,
  idempotency?: Idempotency,
  lane?: Lane,
  heldAt?: string,
) => Promise<Enqueued>;

const ENQUEUE = defineScript({
  source: enqueueLua,
  keys: "registry",
  args: "prefix, ...calls(job, queue, id, data, by, bodyHash, windowMs, heldAt)",
  constants: QUEUE_CONSTANTS,
  proof: "needed",
  reply: list(text),
});

/**
 * Creates the function that adds calls to the queues of one partition. Small calls of the same event-loop turn are sent
 * to Redis in one script call. `partition` must have a connection that rejects commands at once while Redis is away
 * (connectForRequests), because clients wait for the answer. `large` is the same partition over the connection for
 * large writes, where each script call adds only one call.
 */
export function createEnqueue(partition: Partition, large = partition): Enqueue {
  const { prefix, keys } = partition;
  const registry = { registry: keys.queues };
  const enqueue = byLane(partition, large, ENQUEUE);
  const small = new Batches((calls: readonly Added[]) => enqueue.small(registry, { prefix, calls }));

  return async (call, idempotency, lane = "small", heldAt = "") => {
    const added = toAdded(call, { idempotency, heldAt });
    const answer =
      lane === "small"
        ? await small.add(added, storedBytes(call))
        : (await enqueue.large(registry, { prefix, calls: [added] }))[0];
    return toEnqueued(call.id, answerOf(answer) as string);
  };
}

/** Arguments of one call, as the script reads them. */
type Added = Parameters<ReturnType<typeof ENQUEUE.on>>[1]["calls"][number];

/**
 * Number of hex digits of the body's hash that a record stores: 128 bits. The hash is shortened to save memory, because
 * Redis keeps a record for each delivery.
 */
const BODY_HASH_DIGITS = 32;

function toAdded(
  call: JobCall,
  { idempotency, heldAt }: { idempotency: Idempotency | undefined; heldAt: string },
): Added {
  const { by = "", bodySha256 = "", windowMs = 0 } = idempotency ?? {};
  const bodyHash = bodySha256.slice(0, BODY_HASH_DIGITS);
  const [job, queue] = [jobKeyOf(call), queueOf(call)];
  return { job, queue, id: call.id, data: toJson(call), by, bodyHash, windowMs, heldAt };
}

function toEnqueued(id: string, answer: string): Enqueued {
  if (answer === "NEW") return { kind: "new" };
  if (answer === "CONFLICT") return { kind: "conflict" };
  const [state = "", job] = answer.split(" ");
  return { kind: "known", state: toState(id, state) as UnpaidState, ...(job && { job }) };
}
