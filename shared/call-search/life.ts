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

/** Where a call lies in a queue, and when it is due there if it is delayed (unix ms). */
export type Place = { queue: QueueName; as: string; dueAt: number | undefined };

/** What a call is, without its body. */
export type LifeHead = Pick<
  JobCall,
  | ("origin" | "service_id" | "job_id" | "metadata" | "content_type")
  | ("bytes" | "sha256" | "traceparent" | "accepted_at")
>;

/** All that is kept of a call, except the bytes of its body and result. */
export type CallLife = {
  id: string;
  /** In lower case: that of its record, or, without one, `queued` or `failed`. */
  state: string;
  /** When it came into this state, or became delayed, unix ms. Of a queued call that is not delayed, only if it has a record. */
  changedAt: number | undefined;
  /** Undefined of a call that has left its queue, is not remembered, and that nobody paid for. */
  origin: string | undefined;
  /** `<service id>/<job index>`, as far as it is known. */
  job: string | undefined;
  place: Place | undefined;
  /** While its body is kept. */
  head: LifeHead | undefined;
  /** How many bytes of the body are stored, as base64; 0 once it is not kept. */
  storedBytes: number;
  /** What happened, the oldest first. Of failed attempts, failures, replays and early runs only the newest of each. */
  steps: readonly LifeStep[];
  /** How many attempts there were in all, also across replays. Undefined if that is no longer known. */
  attempts: number | undefined;
  /** How often it was replayed, as far as its log is kept. */
  replays: number;
  result: LifeResult;
  /** Of a paid call, without `call`. */
  payment: Payment | undefined;
  /** What is remembered of a call that its runner took (shared/call-search/history). */
  remembered: EndedCall | undefined;
  forgottenAt: number | undefined;
};

/** State and time of its record, its place, when it was added, and the newest entry of its log. */
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
 * Reads the life of a call, in one step and without a body: some kilobytes, whatever became of it. One that is in no queue is looked for
 * among those that are remembered, which costs a part of a second. Undefined if nothing is known of it. Throws `record.unreadable` and `queue.unavailable`.
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
  // Without a record and a place, a call with a head is a kept one.
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

/** When a call that is delayed became so: its attempt before that has the newest entry of its log. */
function delayedAt(place: Place | undefined, { entries }: CallLog): number | undefined {
  return place?.as === "delayed" ? entries.at(-1)?.at : undefined;
}

function jobWithoutQueue(record: Known["record"], head: LifeHead | undefined): string | undefined {
  return jobOfRecord(record["jb"], record["rt"]) ?? (head && jobKeyOf(head));
}

/** How many attempts there were in all. The log has no attempt that succeeded. It may expire before the record of a call that ended well, and goes if the call is forgotten. */
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

/** BullMQ's score of a delayed call holds its time above 12 bits of a counter. */
const SCORE_UNITS_PER_MS = 0x1000;

function toPlace([queue, as]: [string, string], score: number | undefined): Place {
  const dueAt = score === undefined || as === "held" ? undefined : Math.floor(score / SCORE_UNITS_PER_MS);
  return { queue, as, dueAt };
}

/** Only the beginning of an answer was read. */
function withoutBody(result: ResultRead, [, , [beginning], total]: LifeReply): LifeResult {
  if (result.kind !== "answer") return result;
  const { body, ...answer } = result;
  return { ...answer, bytes: total - (beginning?.length ?? 0) + body.length };
}

/** Reads a delivered webhook that is kept. Throws `record.unreadable` and `queue.unavailable`. */
export function createReadKept({ redis, keys }: Partition): (id: string) => Promise<Kept | undefined> {
  return async function readKept(id) {
    const stored = await redis.getBuffer(keys.kept(id)).catch(rethrow);
    return stored === null ? undefined : decodeKept(stored);
  };
}

/** Reads the bytes of a call's body. Undefined if they are no longer kept, or this version cannot read the call. */
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
