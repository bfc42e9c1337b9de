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

/** How a call that its sender can repeat is remembered, in its record. */
export type Idempotency = {
  /** The request that makes it: its own repeat, after a lost reply, is `new` again. */
  by: string;
  /** The hash that a repeat must have too. */
  bodySha256: string;
  /** How long the record is kept after the call's end. */
  windowMs: number;
};

/** A call that nobody paid for is never refunded. */
export type UnpaidState = Exclude<RecordState, RefundState>;

/** `job` is the key of the job that a known call is of: the configuration may have changed since. */
export type Enqueued =
  | { kind: "new" }
  | { kind: "known"; state: UnpaidState; job?: string }
  | { kind: "conflict" };

/**
 * Adds a call to the queue of its job, unless `idempotency` shows that it is known, and resolves once Redis has replied. An add without
 * it is new, and does nothing while the call is in its queue. `heldAt` is the path of the call's endpoint if an operator holds it. Throws
 * `record.unreadable`.
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
 * Small calls that come in one turn of the event loop go to Redis together. For gateways: the connection must fail fast
 * (connectForRequests). `large` is the same partition over the connection for large writes, where each call goes alone.
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

/** A call as the script takes it. */
type Added = Parameters<ReturnType<typeof ENQUEUE.on>>[1]["calls"][number];

/** The record keeps 128 bits of the body's hash: there is one for each delivery of a week. */
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
