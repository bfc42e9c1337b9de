import type { EndedCall } from "../call-history/block.ts";
import { createReadHistory } from "../call-history/read.ts";
import { AppError } from "../errors/app-error.ts";
import type { ErrorCode } from "../errors/codes.ts";
import { callbackId, ENDINGS, type Ending } from "../job-call/callback.ts";
import { JobCall } from "../job-call/job-call.ts";
import { createPaymentJournal } from "../payments/journal.ts";
import { type Payment, toPayment } from "../payments/payment.ts";
import { fieldsOfPayment } from "../payments/scripts.ts";
import { type FailedAttempt, toAttempts } from "../queue/call-record.ts";
import { createFailedCalls, toFailure } from "../queue/failed.ts";
import { jobOf, originOf, type QueueName } from "../queue/queue-name.ts";
import { openRegistry } from "../queue/registry.ts";
import { defineScript, type Reply } from "../redis/define-script.ts";
import { toObject } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";
import { bytes, integer, list, numeric, optional, text, tuple } from "../redis/reply.ts";
import { isNewer, newer } from "../redis/version.ts";
import type { StoredResult } from "../results/result.ts";
import { HEAD_BYTES_MAX, jobOfRecord, type ResultRead, toRead } from "../results/store.ts";
import readLifeLua from "./read-life.lua";

/** One thing that happened to a call. `at` is unix ms. */
export type LifeStep = { at: number } & (
  | { kind: "accepted" }
  /** A facilitator has verified the payment, and the whole call is on disk. */
  | { kind: "claimed"; facilitator: string }
  /** The settle request was sent once more, so often in all. */
  | { kind: "settle sent again"; dispatches: number }
  | { kind: "settled"; transaction: string; by: string; proven: boolean }
  | { kind: "void"; reason: string | undefined }
  | { kind: "in review"; reason: string | undefined }
  | { kind: "queued" }
  | ({ kind: "attempt failed" } & Omit<FailedAttempt, "v" | "at">)
  | { kind: "failed"; code: ErrorCode; reason: string }
  | { kind: "injected" }
  | { kind: "discarded" }
  | { kind: "refund exported"; export: string }
  | { kind: "refunded"; transaction: string }
  /** The runner took the call although its refund was exported. */
  | { kind: "injected late" }
  /** What the runner of a long job last said, as JSON. */
  | { kind: "progress"; json: string }
  | { kind: "result"; status: number; contentType: string | undefined; bytes: number; by: StoredResult["by"] }
  | { kind: "result too long"; status: number; by: StoredResult["by"] }
  | { kind: "failure delivered"; status: number; title: string | undefined; detail: string | undefined }
  /** Its receiver is told of the end; this is the state of that callback, a call of its own. `at` is when it was queued, or came into that state. */
  | { kind: "callback"; ending: Ending; id: string; state: string; attempts: number }
  | { kind: "forgotten" }
);

/** Where a call lies in a queue, and when it is due there if it is delayed (unix ms). */
export type Place = { queue: QueueName; as: string; dueAt: number | undefined };

/** What a call is, without its body. */
export type LifeHead = Pick<
  JobCall,
  "metadata" | "content_type" | "bytes" | "sha256" | "traceparent" | "accepted_at"
>;

type Answer = Extract<ResultRead, { kind: "answer" }>;

/** What there is to say of a result; of an answer its size in place of the body. */
export type LifeResult = Exclude<ResultRead, Answer> | (Omit<Answer, "body"> & { bytes: number });

/** All that is kept of a call, except the bytes of its body and result. */
export type CallLife = {
  id: string;
  /** In lower case: that of its record, or, without one, `queued` or `failed`. */
  state: string;
  /** Of a call with a record: when it came into this state, unix ms. */
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
  /** What happened, the oldest first. Of the failed attempts only the newest. */
  steps: readonly LifeStep[];
  /** How many failed attempts came before those. */
  attemptsBefore: number;
  result: LifeResult;
  /** Of a paid call, without `call`. */
  payment: Payment | undefined;
  /** What is remembered of a call that its runner took (shared/call-history). */
  remembered: EndedCall | undefined;
  forgottenAt: number | undefined;
};

/** When it was added and when it failed, why, and its score among the delayed ones. */
const JOB = tuple(optional(numeric), optional(numeric), optional(text), optional(numeric));
type Job = ReturnType<typeof JOB> | undefined;

/** State and time of its record, its place, when it was added, and its newest failed attempt. */
const CALLBACK = tuple(optional(text), optional(numeric), optional(text), optional(numeric), optional(text));

const READ_LIFE = defineScript({
  source: readLifeLua,
  keys: "record, payment, attempts, result, progress, registry, ...callbacks(record, attempts)",
  args: "prefix, id, ...callbackIds",
  constants: { HEAD_BYTES_MAX },
  strings: "bytes",
  reply: tuple(
    list(text),
    fieldsOfPayment,
    list(optional(bytes)),
    integer,
    list(text),
    optional(tuple(text, text)),
    optional(JOB),
    text,
    integer,
    list(CALLBACK),
    integer,
  ),
});
type Found = Reply<typeof READ_LIFE>;

export type ReadLife = (id: string) => Promise<CallLife | undefined>;

/**
 * Reads the life of a call, in one step and without a body: some kilobytes, whatever became of it. One that is in no queue is looked for
 * among those that are remembered, which costs a part of a second. Undefined if nothing is known of it. Throws `record.newer`, `record.unreadable` and `queue.unavailable`.
 */
export function createReadLife(partition: Partition): ReadLife {
  const { redis, keys, prefix } = partition;
  const run = READ_LIFE.on(redis);
  const history = createReadHistory(partition);

  async function remembered(id: string): Promise<EndedCall | undefined> {
    for await (const call of history({ id })) return call;
    return undefined;
  }

  return async function readLife(id) {
    const callbackIds = ENDINGS.map((ending) => callbackId(id, ending));
    const touched = {
      ...{ record: keys.record(id), payment: keys.payment(id), attempts: keys.attempts(id) },
      ...{ result: keys.result(id), progress: keys.progress(id), registry: keys.queues },
      callbacks: callbackIds.map((callback) => {
        return { record: keys.record(callback), attempts: keys.attempts(callback) };
      }),
    };
    const found = await run(touched, { prefix, id, callbackIds }).catch(unreadable);
    const isQueued = found[5] !== undefined;
    return toLife(id, found, isQueued ? undefined : await remembered(id).catch(unreadable));
  };
}

function unreadable(cause: unknown): never {
  throw new AppError("queue.unavailable", { reason: "no call can be read", retryAfterMs: 2000, cause });
}

function toLife(id: string, found: Found, remembered: EndedCall | undefined): CallLife | undefined {
  const [recordFields, paymentFields, read, , lines, placed, job, stored, storedBytes, callbacks, readAt] =
    found;
  const record = toObject(recordFields);
  if (isNewer("record", record["v"])) throw newer();
  const place = placed && toPlace(placed, job);
  const inQueue = place && (place.as === "failed" ? "failed" : "queued");
  const state = record["st"]?.toLowerCase() ?? inQueue ?? (remembered && "injected");
  if (state === undefined) return undefined;
  const payment = toPayment(id, [recordFields, paymentFields, readAt]);
  const attempts = toAttempts(lines);
  const head = toHead(stored);
  const result = withoutBody(toRead(read), found);
  const known = { record, place, job, head, payment, attempts, result, remembered };
  const queue = place?.queue ?? remembered?.queue;
  const forgottenAt = numberOf(record["fg"]);
  return {
    ...{ id, state, place, head, storedBytes, payment, remembered, result, forgottenAt },
    changedAt: numberOf(record["at"]) ?? remembered?.endedAt,
    origin: queue === undefined ? payment && "x402" : originOf(queue),
    job: queue === undefined ? jobOfRecord(record["jb"], record["rt"]) : jobOf(queue),
    steps: inOrder([...stepsOf(known), ...callbackSteps(id, callbacks)]),
    attemptsBefore: (attempts[0]?.n ?? 1) - 1,
  };
}

/** BullMQ's score of a delayed call holds its time above 12 bits of a counter. */
const SCORE_UNITS_PER_MS = 0x1000;

function toPlace([queue, as]: [string, string], job: Job): Place {
  const score = job?.[3];
  const dueAt = score === undefined ? undefined : Math.floor(score / SCORE_UNITS_PER_MS);
  return { queue, as, dueAt };
}

function toHead(stored: string): LifeHead | undefined {
  if (stored === "") return undefined;
  try {
    return JobCall.safeParse(JSON.parse(stored)).data;
  } catch {
    return undefined;
  }
}

/** Only the beginning of an answer was read. */
function withoutBody(result: ResultRead, [, , [beginning], total]: Found): LifeResult {
  if (result.kind !== "answer") return result;
  const { body, ...answer } = result;
  return { ...answer, bytes: total - (beginning?.length ?? 0) + body.length };
}

/** A process knows Redis' time to within an exchange with it, so a step may seem to be earlier than the one that it follows from. */
const CLOCKS_DIFFER_MS = 100;

/** By time. Steps that are no further apart than clocks differ stay in the order in which they are given. */
function inOrder(given: readonly LifeStep[]): LifeStep[] {
  const steps: LifeStep[] = [];
  for (const step of given) {
    const before = steps.findLastIndex(({ at }) => at <= step.at + CLOCKS_DIFFER_MS);
    steps.splice(before + 1, 0, step);
  }
  return steps;
}

type Known = Pick<CallLife, "place" | "head" | "payment" | "result" | "remembered"> & {
  record: Readonly<Record<string, string>>;
  job: Job;
  attempts: readonly FailedAttempt[];
};

/** Those that happened at about one time stand in this order. */
function stepsOf(known: Known): LifeStep[] {
  const { record, head, remembered, job, attempts } = known;
  const [queuedAt] = job ?? [];
  const acceptedAt = head?.accepted_at ?? remembered?.acceptedAt;
  const late = numberOf(record["late"]);
  const forgottenAt = numberOf(record["fg"]);
  return [
    ...(acceptedAt === undefined ? [] : [{ kind: "accepted", at: acceptedAt } as const]),
    ...paymentSteps(known),
    ...(queuedAt === undefined ? [] : [{ kind: "queued", at: queuedAt } as const]),
    ...attempts.map(({ n, at, code, reason, worker }) => {
      return { kind: "attempt failed", at, n, code, reason, worker } as const;
    }),
    ...endSteps(known),
    ...(late === undefined ? [] : [{ kind: "injected late", at: late } as const]),
    ...resultSteps(known),
    ...(forgottenAt === undefined ? [] : [{ kind: "forgotten", at: forgottenAt } as const]),
  ];
}

function paymentSteps({ payment, job, record }: Known): LifeStep[] {
  if (payment === undefined) return [];
  const { claimedAt, dispatches, dispatchedAt, facilitator, settlement, settledAt, proven, reason } = payment;
  const at = Number(record["at"]);
  const steps: LifeStep[] = [{ kind: "claimed", at: claimedAt, facilitator }];
  if (dispatches > 1) steps.push({ kind: "settle sent again", at: dispatchedAt, dispatches });
  if (settlement !== undefined && settledAt !== undefined) {
    const { transaction, by } = settlement;
    steps.push({ kind: "settled", at: settledAt, transaction, by, proven });
    // One step settles it and adds the call to its queue.
    if (job === undefined) steps.push({ kind: "queued", at: settledAt });
  }
  if (payment.state === "VOID") steps.push({ kind: "void", at, reason });
  if (payment.state === "REVIEW") steps.push({ kind: "in review", at, reason });
  return steps;
}

/** How it left its queue, and what became of its refund. */
function endSteps({ place, job, record, payment, remembered }: Known): LifeStep[] {
  const at = Number(record["at"]);
  const steps: LifeStep[] = [];
  const [, finishedOn, failedReason] = job ?? [];
  if (place?.as === "failed" && finishedOn !== undefined)
    steps.push({ kind: "failed", at: finishedOn, ...toFailure(failedReason ?? "") });
  if (record["st"] === "INJECTED") steps.push({ kind: "injected", at });
  else if (record["st"] === undefined && remembered !== undefined)
    steps.push({ kind: "injected", at: remembered.endedAt });
  if (record["st"] === "DISCARDED") steps.push({ kind: "discarded", at });
  if (payment?.refund !== undefined)
    steps.push({ kind: "refund exported", at: payment.refund.at, export: payment.refund.export });
  if (record["st"] === "REFUNDED")
    steps.push({ kind: "refunded", at, transaction: payment?.refunded?.transaction ?? "" });
  return steps;
}

function resultSteps({ result }: Known): LifeStep[] {
  switch (result.kind) {
    case "answer": {
      const { at, status, contentType, bytes, by } = result;
      return [{ kind: "result", at, status, contentType, bytes, by }];
    }
    case "too_long":
      return [{ kind: "result too long", at: result.at, status: result.status, by: result.by }];
    case "failure": {
      const { at, status, title, detail } = result;
      return [{ kind: "failure delivered", at, status, title, detail }];
    }
    case "pending":
      return result.progress === undefined
        ? []
        : [{ kind: "progress", at: result.progress.at, json: result.progress.json }];
    default:
      return [];
  }
}

function callbackSteps(id: string, callbacks: Found["9"]): LifeStep[] {
  return callbacks.flatMap(([st, changedAt, place, timestamp, newest], i): LifeStep[] => {
    const state = st ?? (place && (place === "failed" ? "failed" : "queued"));
    const ending = ENDINGS[i];
    if (state === undefined || ending === undefined) return [];
    const failed = newest === undefined ? 0 : (toAttempts([newest])[0]?.n ?? 0);
    const attempts = state === "INJECTED" ? failed + 1 : failed;
    const at = timestamp ?? changedAt ?? 0;
    const told = { ending, id: callbackId(id, ending), state: state.toLowerCase(), attempts };
    return [{ kind: "callback", at, ...told }];
  });
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

/** Reads the bytes of a call's body. Undefined if they are kept no more, or the call is none of this version. */
export function createReadBody(partition: Partition): (id: string) => Promise<Buffer | undefined> {
  const registry = openRegistry(partition);
  const calls = createFailedCalls(partition);
  const journal = createPaymentJournal(partition);

  return async function readBody(id) {
    const place = await registry.find(id);
    const stored = place && (await calls.stored({ id, queue: place.queue }));
    const call = place === undefined ? (await journal.find(id))?.call : stored?.call;
    return call && Buffer.from(call.body, "base64");
  };
}
