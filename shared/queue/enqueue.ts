import { type JobCall, storedBytes, toJson } from "../job-call/job-call.ts";
import { jobKeyOf } from "../job-call/job-ids.ts";
import { Batches } from "../redis/batches.ts";
import type { Partition } from "../redis/partition.ts";
import { type Lane, scriptByLane } from "../redis/retry-write.ts";
import type { Script } from "../redis/script.ts";
import { newer, PLAIN_RECORD, VERSIONS } from "../redis/version.ts";
import type { RecordState, RefundState } from "./protocol.ts";
import { queueOf } from "./queue-name.ts";
import { addLua, answerOf, eachAlone } from "./scripts.ts";

/** How a call that its sender can repeat is remembered, in its record. */
export type Claim = {
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
 * Adds a call to the queue of its job, unless a claim shows that it is known, and resolves once Redis has replied. An add without a
 * claim is new, and does nothing while the call is in its queue. Throws `record.newer`.
 */
export type Enqueue = (call: JobCall, claim?: Claim, lane?: Lane) => Promise<Enqueued>;

const WORDS_A_CALL = 7;

/**
 * KEYS queues. ARGV prefix; then for each call: job, queue, id, the call as stored, by (empty without a claim), body sha256,
 * window ms. Answers for each call NEW, CONFLICT, the state and job found, or NEWER, or ERROR and the error: one that fails fails alone. The
 * record comes after the add, so that it never says QUEUED of a call that is not there.
 */
const enqueueLua = () => `
local prefix = ARGV[1] .. ':'
${addLua()}
local function enqueue(jobName, name, id, data, by, bodySha256, windowMs)
  if by == '' then
    add(jobName, name, id, data)
    return 'NEW'
  end
  local record = prefix .. 'call:' .. id
  local st, bh, known, v, job = unpack(redis.call('HMGET', record, 'st', 'bh', 'by', 'v', 'jb'))
  if tonumber(v or 1) > ${VERSIONS.record} then return 'NEWER' end
  if st and bh and bh ~= bodySha256 then return 'CONFLICT' end
  if st then return known == by and 'NEW' or st .. ' ' .. (job or '') end
  add(jobName, name, id, data)
  redis.call('HSET', record, 'v', '${PLAIN_RECORD}', 'st', 'QUEUED', 'bh', bodySha256, 'w', windowMs, 'at', now, 'by', by,
    'jb', jobName)
  return 'NEW'
end
${eachAlone("enqueue", 2, WORDS_A_CALL)}`;

/**
 * Small calls that come in one turn of the event loop go to Redis together. For gateways: the connection must fail fast
 * (connectForRequests). `large` is the same partition over the connection for large writes, where each call goes alone.
 */
export function createEnqueue(partition: Partition, large = partition): Enqueue {
  const lua = enqueueLua();
  const run = scriptByLane(partition, large, lua);
  const small = new Batches((calls: readonly Words[]) => send(run.small, calls));

  async function send(by: Script, calls: readonly Words[]): Promise<string[]> {
    return (await by([partition.keys.queues], [partition.prefix, ...calls.flat()])) as string[];
  }

  return async (call, claim, lane = "small") => {
    const words = toWords(call, claim);
    const answer =
      lane === "small" ? await small.add(words, storedBytes(call)) : (await send(run.large, [words]))[0];
    return toEnqueued(answerOf(answer) as string);
  };
}

type Words = (string | number | Buffer)[];

function toWords(call: JobCall, claim: Claim | undefined): Words {
  const { by = "", bodySha256 = "", windowMs = 0 } = claim ?? {};
  return [jobKeyOf(call), queueOf(call), call.id, toJson(call), by, bodySha256, windowMs];
}

function toEnqueued(answer: string): Enqueued {
  if (answer === "NEW") return { kind: "new" };
  if (answer === "CONFLICT") return { kind: "conflict" };
  if (answer === "NEWER") throw newer();
  const [state, job] = answer.split(" ");
  return { kind: "known", state: state as UnpaidState, ...(job && { job }) };
}
