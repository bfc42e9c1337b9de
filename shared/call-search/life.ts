import { JobCall } from "../call/job-call.ts";
import { jobKeyOf } from "../call/job-ids.ts";
import { decodeKept, type Kept } from "../call/kept/kept.ts";
import { HEAD_BYTES_MAX, jobOfRecord, type ResultRead, toRead } from "../call/results/store.ts";
import { PaymentJournal } from "../payments/journal.ts";
import { type Payment, toPayment } from "../payments/payment.ts";
import { fieldsOfPayment } from "../payments/scripts.ts";
import { parseJson } from "../platform/text/parse-json.ts";
import { type CallLog, toCallLog } from "../queue/call-log.ts";
import { createFailedCalls } from "../queue/failed.ts";
import { jobOf, originOf, type QueueName } from "../queue/queue-name.ts";
import { openRegistry } from "../queue/registry.ts";
import { defineScript, type Reply } from "../redis/define-script.ts";
import { toObject } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";
import { bytes, integer, list, numeric, optional, text, tuple } from "../redis/reply.ts";
import { readFailed } from "../redis/unreadable.ts";
import { callKeys } from "./call-keys.ts";
import type { EndedCall } from "./history/block.ts";
import { createFindEnded } from "./history/read.ts";
import readLifeLua from "./read-life.lua";
import { type Known, type LifeResult, type LifeStep, numberOf, stepsOf } from "./steps.ts";

/** The place of a call in a queue, and its due time (unix ms) if it is delayed. */
export type Place = { queue: QueueName; as: string; dueAt: number | undefined };

/** The data of a call without its body. */
export type LifeHead = Pick<
  JobCall,
  | ("origin" | "service_id" | "job_id" | "metadata" | "content_type")
  | ("bytes" | "sha256" | "traceparent" | "accepted_at")
>;

/** All that is kept of a call, except the bytes of its body and result. */
export type CallLife = {
  id: string;
  /**
   * State in lower case, as the call's record says. A call without a record is `failed` or `queued` if a queue has it, else
   * `injected`.
   */
  state: string;
  /**
   * Time (unix ms) at which the call came into this state or, if it is delayed, became delayed. Undefined if neither the
   * call's record nor its log or the history has this time.
   */
  changedAt: number | undefined;
  /**
   * Undefined if nothing shows the origin. The call is then in no queue and not in the history, its data is no longer kept,
   * and it was not paid for.
   */
  origin: string | undefined;
  /** `<service id>/<job index>`, if it is known. */
  job: string | undefined;
  place: Place | undefined;
  /** Set while the call's body is kept. */
  head: LifeHead | undefined;
  /** Size of the stored call, with its body as base64; 0 once the body is no longer kept. */
  storedBytes: number;
  /**
   * Steps of the call, oldest first. Of failed attempts, failures, replays and early runs, only the newest five each are kept.
   * An early run is an attempt that an operator began before it was due.
   */
  steps: readonly LifeStep[];
  /** Number of all attempts, including those before replays. Undefined if it is no longer known. */
  attempts: number | undefined;
  /** Number of replays; 0 once the call's log is no longer kept. */
  replays: number;
  result: LifeResult;
  /** The payment of a paid call, without its field `call`, which is the stored call. */
  payment: Payment | undefined;
  /** The call's entry in the history of injected calls (shared/call-search/history). */
  remembered: EndedCall | undefined;
  forgottenAt: number | undefined;
};

/** Decodes the data of one callback, in the order in which `Known.callbacks` (steps.ts) lists it. */
const CALLBACK = tuple(optional(text), optional(numeric), optional(text), optional(numeric), optional(text));

const READ_LIFE = defineScript({
  source: readLifeLua,
  keys: "record, payment, attempts, result, progress, kept, registry, ...callbacks(record, attempts)",
  args: "prefix, id, ...callbackIds",
  constants: { HEAD_BYTES_MAX },
  proof: "reads",
  strings: "bytes",
  reply: tuple(
    list(text),
    fieldsOfPayment,
    list(optional(bytes)),
    integer,
    list(text),
    optional(tuple(text, text)),
    optional(numeric),
    text,
    integer,
    list(CALLBACK),
    integer,
  ),
});
type LifeReply = Reply<typeof READ_LIFE>;

export type ReadLife = (id: string) => Promise<CallLife | undefined>;

/**
 * Reads all that is kept of a call. One script reads it without the body and the result, so its reply has only some kilobytes.
 * If the call is in no queue, the history of injected calls is searched too, which takes a fraction of a second. Resolves with
 * undefined if nothing is known of the call. Throws `record.unreadable` and `queue.unavailable`.
 */
export function createReadLife(partition: Partition): ReadLife {
  const { redis, keys, prefix } = partition;
  const run = READ_LIFE.on(redis);
  const findEnded = createFindEnded(partition);

  return async function readLife(id) {
    const { touched, callbackIds } = callKeys(keys, id);
    const found = await run(touched, { prefix, id, callbackIds }).catch(rethrow);
    const isQueued = found[5] !== undefined;
    return toLife(id, found, isQueued ? undefined : await findEnded(id).catch(rethrow));
  };
}

const rethrow = readFailed("the call cannot be read");

function toLife(id: string, found: LifeReply, remembered: EndedCall | undefined): CallLife | undefined {
  const [recordFields, paymentFields, read, , lines, placed, score, stored, storedBytes, callbacks, readAt] =
    found;
  const record = toObject(recordFields);
  const result = withoutBody(toRead(id, read), found);
  const place = placed && toPlace(placed, score);
  const inQueue = place && (place.as === "failed" ? "failed" : "queued");
  const head = JobCall.safeParse(parseJson(stored)).data;
  // A call that has a head, but no record and no queue, is a kept webhook, so it was injected.
  const injected = (remembered ?? head) && "injected";
  const state = record["st"]?.toLowerCase() ?? inQueue ?? injected;
  if (state === undefined) return undefined;
  const payment = toPayment(id, [recordFields, paymentFields, readAt]);
  const log = toCallLog(lines);
  const attempts = attemptsOf({ record, log, remembered });
  const known = { record, head, payment, log, attempts, result, remembered };
  const queue = place?.queue ?? remembered?.queue;
  const forgottenAt = numberOf(record["fg"]);
  return {
    id,
    state,
    place,
    head,
    storedBytes,
    payment,
    remembered,
    result,
    forgottenAt,
    changedAt: delayedAt(place, log) ?? numberOf(record["at"]) ?? remembered?.endedAt,
    origin: queue === undefined ? (head?.origin ?? (payment && "x402")) : originOf(queue),
    job: queue === undefined ? jobWithoutQueue(record, head) : jobOf(queue),
    steps: stepsOf({ ...known, id, callbacks }),
    attempts,
    replays: log.replays,
  };
}

/** Returns when a delayed call became delayed: at its last attempt, which is the newest entry of its log. */
function delayedAt(place: Place | undefined, { entries }: CallLog): number | undefined {
  return place?.as === "delayed" ? entries.at(-1)?.at : undefined;
}

function jobWithoutQueue(record: Known["record"], head: LifeHead | undefined): string | undefined {
  return jobOfRecord(record["jb"], record["rt"]) ?? (head && jobKeyOf(head));
}

/**
 * Returns the number of all attempts: those in the log, plus the successful one, which the log does not have. The log may
 * expire before the record, and is deleted when the call is forgotten. Without the log, the number comes from the history, if
 * the history has the call.
 */
function attemptsOf({
  record,
  log,
  remembered,
}: Pick<Known, "record" | "log" | "remembered">): number | undefined {
  const isInjected = record["st"] === "INJECTED";
  if (log.attempts > 0) return isInjected ? log.attempts + 1 : log.attempts;
  if (remembered !== undefined) return remembered.attempts;
  return isInjected || record["fg"] !== undefined ? undefined : 0;
}

/** BullMQ's score of a delayed call is its due time in ms times this number, plus a counter. */
const SCORE_UNITS_PER_MS = 0x1000;

function toPlace([queue, as]: [string, string], score: number | undefined): Place {
  const dueAt = score === undefined || as === "held" ? undefined : Math.floor(score / SCORE_UNITS_PER_MS);
  return { queue, as, dueAt };
}

/**
 * Replaces the body of a result with its size. The script has read only the beginning of the result, so the size is computed
 * from the size of the whole result.
 */
function withoutBody(result: ResultRead, [, , [beginning], total]: LifeReply): LifeResult {
  if (result.kind !== "answer") return result;
  const { body, ...answer } = result;
  return { ...answer, bytes: total - (beginning?.length ?? 0) + body.length };
}

/** Reads a kept webhook. Throws `record.unreadable` and `queue.unavailable`. */
export function createReadKept({ redis, keys }: Partition): (id: string) => Promise<Kept | undefined> {
  return async function readKept(id) {
    const stored = await redis.getBuffer(keys.kept(id)).catch(rethrow);
    return stored === null ? undefined : decodeKept(stored);
  };
}

/** Reads the bytes of a call's body. Undefined if the body is no longer kept, or if this version cannot read the call. */
export function createReadBody(partition: Partition): (id: string) => Promise<Buffer | undefined> {
  const registry = openRegistry(partition);
  const calls = createFailedCalls(partition);
  const journal = new PaymentJournal(partition);
  const readKept = createReadKept(partition);

  return async function readBody(id) {
    const place = await registry.find(id);
    const stored = place && (await calls.stored({ id, queue: place.queue }));
    const elsewhere = async () => (await journal.find(id))?.call ?? (await readKept(id))?.call;
    const call = place === undefined ? await elsewhere() : stored?.call;
    return call && Buffer.from(call.body, "base64");
  };
}
