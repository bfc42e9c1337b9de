import type { JobJson } from "bullmq";
import { type JobCall, toJson } from "../job-call/job-call.ts";
import type { Partition } from "../redis/partition.ts";
import type { Lane } from "../redis/retry-write.ts";
import { script } from "../redis/script.ts";
import { unlessNewer, VERSIONS } from "../redis/version.ts";
import { openBackends } from "./backend.ts";
import { JOB_NAME, JOB_OPTIONS, type RecordState } from "./protocol.ts";
import { queueOf } from "./queue-name.ts";

/** Resolves once Redis has replied to the add. Adding the same id again does nothing while the call is in its queue. */
export type Add = (call: JobCall, lane?: Lane) => Promise<void>;

/**
 * Adds calls to the queues of their jobs. For gateways: the connection must fail fast (connectForRequests). `large` is the same
 * partition over the connection for large writes.
 */
export function createAdd(partition: Partition, large = partition): Add {
  const backends = { small: openBackends(partition), large: openBackends(large) };
  return async (call, lane = "small") => {
    const { id } = call;
    const opts = { ...JOB_OPTIONS, jobId: id };
    const job = { id, name: JOB_NAME, data: toJson(call), opts, timestamp: Date.now() };
    await backends[lane](queueOf(call)).addJob(job as unknown as JobJson, id); // it sends bytes as they are
  };
}

export type Claim =
  | { kind: "new" }
  | { kind: "conflict" }
  | { kind: "known"; state: Exclude<RecordState, "SETTLED"> };

/** KEYS record. ARGV body sha256, window ms, now, by. Answers NEW, CONFLICT or the state found. */
const CLAIM = `
local st = redis.call('HGET', KEYS[1], 'st')
if not st then
  redis.call('HSET', KEYS[1], 'v', ${VERSIONS.record}, 'st', 'CLAIMED', 'bh', ARGV[1], 'w', ARGV[2], 'at', ARGV[3], 'by', ARGV[4])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 'NEW'
end
${unlessNewer("record").trim()}
local bh = redis.call('HGET', KEYS[1], 'bh')
if bh and bh ~= ARGV[1] then return 'CONFLICT' end
if st == 'CLAIMED' and redis.call('HGET', KEYS[1], 'by') == ARGV[4] then return 'NEW' end
return st`;

/** KEYS record. ARGV now. */
const MARK_QUEUED = `${unlessNewer("record")}
if redis.call('HGET', KEYS[1], 'st') ~= 'CLAIMED' then return end
redis.call('HSET', KEYS[1], 'st', 'QUEUED', 'at', ARGV[1])
redis.call('PERSIST', KEYS[1])`;

export type Claims = ReturnType<typeof createClaims>;

/** A gateway's writes to the record of a call with a delivery id. Each is one atomic script; none is retried here. */
export function createClaims({ redis, keys }: Partition) {
  const claim = script(redis, CLAIM);
  const markQueued = script(redis, MARK_QUEUED);

  return {
    /**
     * Before the add: makes the record, or returns what is known of the call. `by` identifies the claiming request: its own
     * repeat, after a lost reply, is `new` again. Throws `record.newer`.
     */
    async claim(
      id: string,
      bodySha256: string,
      { windowMs, now, by }: { windowMs: number; now: number; by: string },
    ): Promise<Claim> {
      const reply = (await claim([keys.record(id)], [bodySha256, windowMs, now, by])) as string;
      if (reply === "NEW") return { kind: "new" };
      if (reply === "CONFLICT") return { kind: "conflict" };
      return { kind: "known", state: reply as Exclude<RecordState, "SETTLED"> };
    },

    /** After the add: CLAIMED becomes QUEUED. Any other state is newer and stays. */
    async markQueued(id: string, now: number): Promise<void> {
      await markQueued([keys.record(id)], [now]);
    },
  };
}
