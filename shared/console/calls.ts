import { z } from "zod";
import { CALL_ID_PREFIX, NOT_A_CALL_ID_PREFIX } from "../call/call-id.ts";
import { WEBHOOK_DELIVERY_ID, WEBHOOK_PATH, WEBHOOK_REPLAY_OF } from "../call/job-call.ts";
import { idsOfKey } from "../call/job-ids.ts";
import { ORIGINS } from "../call/origin.ts";
import { createResults } from "../call/results/store.ts";
import { createCountFacets } from "../call-search/facets.ts";
import { createForget } from "../call-search/forget.ts";
import {
  CALL_STATES,
  type FoundCall,
  SEARCHED_STATES,
  type CallSearch as Search,
} from "../call-search/found-call.ts";
import { type CallLife, createReadBody, createReadKept, createReadLife } from "../call-search/life.ts";
import { createReplayDelivered } from "../call-search/replay-delivered.ts";
import { createSearchCalls } from "../call-search/search.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { toIso } from "../platform/time/iso.ts";
import { toCode } from "../queue/failed.ts";
import type { OperateDeps, OperatorDeps } from "../queue/operate.ts";
import { createAudit } from "../redis/audit/audit.ts";
import { byCall, type Partitions } from "../redis/partition.ts";
import { type CallFacetsView, toFacetsView } from "./call-facets.ts";
import { errorCode, jobKey, payer, searchText, transaction } from "./contract/parameters.ts";
import { fromCursor, next, type PageRequest, toCursor } from "./cursor.ts";
import { PaymentView, toPaymentView } from "./payment-view.ts";
import { createFindRejected, RejectedView } from "./rejected.ts";
import { type DecimalsOf, decimalsFrom, type TokenSource } from "./tokens.ts";
import { askedMs, askedTime, count, isoOrNull, isoTime, reason } from "./view.ts";

/** A call in a search result. Unknown values are null. */
export const FoundCallView = z
  .object({
    id: z.string(),
    state: z.enum(CALL_STATES),
    /**
     * Time by which search results are sorted. For a failed or injected call, it is the time of the failure or
     * injection. For a call in its queue, it is the time when the call was last queued or sent to its runner. If only
     * the payment of the call is stored, it is the time of the claim.
     */
    at: isoTime,
    origin: z.string().nullable(),
    /** `<service id>/<job index>` */
    job: z.string().nullable(),
    endpoint: z.string().nullable(),
    delivery_id: z.string().nullable(),
    payer: z.string().nullable(),
    transaction: z.string().nullable(),
    /** Event type in the sender's terms. */
    event: z.string().nullable(),
    accepted_at: isoTime.nullable(),
    ended_at: isoTime.nullable(),
    attempts: count.nullable(),
    /** Error code of the call's failure or of its last failed attempt. */
    code: z.string().nullable(),
    reason: z.string().nullable(),
  })
  .meta({ id: "FoundCall" });
export type FoundCallView = z.infer<typeof FoundCallView>;

/** Selects calls. Fields that are given must all match. */
export const CallSearch = z.strictObject({
  /**
   * Text to find. It is a whole job, a part of an event type, of an endpoint's path or of an error, or the beginning of
   * an id. The ids are those of the call, the delivery, the payer and the transaction.
   */
  q: searchText.optional(),
  /** A complete id or a prefix of one. */
  id: z.string().regex(CALL_ID_PREFIX, NOT_A_CALL_ID_PREFIX).optional(),
  delivery_id: z.string().min(1).max(1024).optional(),
  endpoint: z.string().min(1).max(2048).optional(),
  payer: payer.optional(),
  transaction: transaction.optional(),
  event: z.string().min(1).max(1024).optional(),
  /** Error code of the failure or the last failed attempt. */
  code: errorCode.optional(),
  origin: z.enum(ORIGINS).optional(),
  job: jobKey.optional(),
  state: z.enum(SEARCHED_STATES).optional(),
  since: askedTime.optional(),
  until: askedTime.optional(),
});
export type CallSearch = z.infer<typeof CallSearch>;

/** One step in the life of a call. `what` determines which other fields are present. */
const Step = z
  .object({
    at: isoTime,
    what: z.string(),
    /** Number of attempts just before this step that are no longer kept. */
    missing: count.optional(),
    n: z.int().optional(),
    code: z.string().optional(),
    reason: z.string().optional(),
    worker: z.string().optional(),
    /** Duration of the attempt in ms. */
    ms: z.int().optional(),
    facilitator: z.string().optional(),
    dispatches: z.int().optional(),
    transaction: z.string().optional(),
    by: z.string().optional(),
    proven: z.boolean().optional(),
    export: z.string().optional(),
    json: z.string().optional(),
    status: z.int().optional(),
    content_type: z.string().optional(),
    bytes: z.int().optional(),
    title: z.string().optional(),
    detail: z.string().optional(),
    ending: z.string().optional(),
    state: z.string().optional(),
    attempts: z.int().optional(),
    id: z.string().optional(),
  })
  .meta({ id: "CallStep" });

/** All data of a call except the bytes of its body and result. */
export const CallLifeView = z
  .object({
    call_id: z.string(),
    state: z.string(),
    changed_at: isoTime.nullable(),
    origin: z.string().nullable(),
    service_id: count.nullable(),
    job_id: count.nullable(),
    queue: z.object({ name: z.string(), as: z.string(), due_at: isoTime.nullable() }).nullable(),
    /**
     * Steps, oldest first. Of failed attempts, failures, replays and early runs, only the newest five each are kept.
     * An early run is an attempt that an operator began before it was due.
     */
    timeline: z.array(Step),
    content_type: z.string().nullable(),
    bytes: count.nullable(),
    sha256: z.string().nullable(),
    traceparent: z.string().nullable(),
    metadata: z.record(z.string(), z.string()).nullable(),
    endpoint: z.string().nullable(),
    delivery_id: z.string().nullable(),
    /** Number of attempts in total, across replays. Null if it is no longer known. */
    attempts: count.nullable(),
    /** Number of replays; 0 once the attempts are no longer kept. */
    replays: count,
    body_kept: z.boolean(),
    /** The result of the call. `what` is `answer` if a result is kept. Its other values say why none is kept. */
    result: z.object({
      what: z.string(),
      /** A clause that says why there is no answer; null if there is one. */
      reason: z.string().nullable(),
      /** Size of a kept answer. */
      bytes: count.optional(),
      code: z.string().optional(),
      title: z.string().nullable().optional(),
      detail: z.string().nullable().optional(),
    }),
    payment: PaymentView.nullable(),
    forgotten_at: isoTime.nullable(),
    /**
     * Id of the delivered call that an operator replayed as this call. Null if this call is no replay, or if its
     * metadata is no longer kept.
     */
    replay_of: z.string().nullable(),
  })
  .meta({ id: "CallLife" });
export type CallLifeView = z.infer<typeof CallLifeView>;

export const FoundCalls = z.object({
  calls: z.array(FoundCallView),
  /** Refused requests whose id starts with `q`. Only the first page has them. */
  rejected: z.array(RejectedView),
  next,
  /**
   * False if more calls may match: the search ran out of time, a queue holds more calls than a search reads, or
   * `is_unlisted` is true.
   */
  is_complete: z.boolean(),
  /**
   * True if some calls in the requested state may be in no list that a search can read. They are found only by their
   * ids.
   */
  is_unlisted: z.boolean(),
});
export type FoundCalls = z.infer<typeof FoundCalls>;

/** Result of forgetting a call. */
export const ForgottenView = z.object({
  changed: z.boolean(),
  /** Time at which the call was forgotten earlier; null if this was the first time. */
  forgotten_before: isoTime.nullable(),
});
export type ForgottenView = z.infer<typeof ForgottenView>;

/** The new call that replays a delivered webhook. */
export const ReplayedView = z.object({
  call_id: z.string(),
  replay_of: z.string(),
  /** False if an earlier request with the same `request_id` had queued the call. */
  changed: z.boolean(),
});
export type ReplayedView = z.infer<typeof ReplayedView>;

/** Asks to replay a delivered webhook. A repeat with the same `request_id` queues no second call. */
export const Replay = z.strictObject({
  reason,
  request_id: z
    .string()
    .regex(/^[\w-]{1,64}$/, "must be 1 to 64 letters, digits, _ or -")
    .optional(),
});

const Place = z.strictObject({ at: z.number(), ids: z.array(z.string()) });

export type CallsApi = {
  /** Counts the calls that a search finds, by state, endpoint, job, event type and error code. */
  facets(search: CallSearch): Promise<CallFacetsView>;
  /** Lists calls, newest first. */
  find(search: CallSearch, page: PageRequest): Promise<FoundCalls>;
  /** Shows a call. Throws `call.unknown`, as the other methods with an id do. */
  show(id: string): Promise<CallLifeView>;
  /** Reads the body, and writes a line in the audit log. Throws `call.no_body` if the body is not kept. */
  body(id: string): Promise<Buffer>;
  /**
   * Reads the result, and writes a line in the audit log. Throws `call.no_result` if there is no result with a body.
   */
  result(id: string): Promise<Buffer>;
  /**
   * Queues a delivered webhook as a new call. Throws `call.paid`, `call.corrupt`, and `call.no_body` if its body is
   * not kept.
   */
  replay(id: string, why: z.infer<typeof Replay>): Promise<ReplayedView>;
  /** Deletes all data from the call's sender. Throws `call.in_hand` and `call.undecided`. */
  forget(id: string, reason: string): Promise<ForgottenView>;
};

type Deps = OperatorDeps & {
  /** Redis connections with a longer timeout, because a reply with a large body takes long. */
  patient: Partitions;
  tokens: TokenSource;
  /** Returns the paths of the configured endpoints. */
  paths: () => readonly string[];
};

/** Time limit of a search, which then returns what it has found. */
const PATIENCE_MS = 10_000;

/** Implements the operations on calls: search, show, replay and forget. */
export function createCallsApi({ patient, tokens, paths, ...deps }: Deps): CallsApi {
  const { partitions, clock, log, by } = deps;
  const decimalsOf = decimalsFrom(tokens);
  const search = createSearchCalls(partitions, { paths, patienceMs: PATIENCE_MS });
  const countFacets = createCountFacets(partitions, { paths, patienceMs: PATIENCE_MS });
  const findRejected = createFindRejected(partitions.control, clock);
  const own = byCall(partitions.map((partition) => operationsIn({ ...deps, partition })));
  const bodies = byCall(patient.map((partition) => bodiesIn({ ...deps, partition })));
  const audits = partitions.map((partition) => createAudit(partition, log));

  async function show(id: string): Promise<CallLifeView> {
    const life = await own.readLife(id);
    if (life !== undefined) return toLifeView(life, decimalsOf);
    const detail = `${id} is unknown: there was no such call, or it ended so long ago that it is no longer kept (history_secs of [console] in postern.toml)`;
    throw AppError.public("call.unknown", detail);
  }

  /**
   * Returns the error that says that the body of the call is not kept. Throws `call.unknown` if there is no such call.
   */
  async function bodyMissingError(id: string): Promise<AppError> {
    const { state } = await show(id);
    return AppError.public("call.no_body", `${id}: its body is not kept; the call is ${state}`);
  }

  /**
   * Returns the error that says why a call cannot be replayed as a new call. Throws `call.unknown` if there is no such
   * call.
   */
  async function notReplayableError(id: string): Promise<AppError> {
    const { state, origin } = await show(id);
    return AppError.public("call.no_body", `${id} cannot be replayed: ${whyNotKept(state, origin)}`);
  }

  return {
    show,

    facets: async (asked) => toFacetsView(await countFacets(toSearch(asked))),

    async find(asked, { limit, cursor }) {
      const page = { limit, after: fromCursor(Place, cursor) };
      const found = await search(toSearch(asked), page);
      return {
        calls: found.calls.map(toFoundView),
        rejected: cursor === undefined ? await findRejected(asked.q ?? "") : [],
        next: toCursor(found.next),
        is_complete: found.isComplete,
        is_unlisted: found.isUnlisted,
      };
    },

    async body(id) {
      const body = await bodies.readBody(id);
      if (body !== undefined) {
        await audits.of(id)({ at: clock(), action: "read_body", callId: id, by, selection: "by id" });
        return body;
      }
      throw await bodyMissingError(id);
    },

    async replay(id, { reason, request_id: requestId }) {
      const replayed = await bodies.replay(id, { reason, requestId });
      if (replayed === undefined) throw await notReplayableError(id);
      return { call_id: replayed.callId, replay_of: id, changed: replayed.changed };
    },

    async result(id) {
      const read = await bodies.readResult(id);
      const answer = read.kind === "answer" ? read : (await bodies.readKept(id))?.answer;
      if (answer?.kind === "answer") {
        await audits.of(id)({ at: clock(), action: "read_result", callId: id, by, selection: "by id" });
        return answer.body;
      }
      const { result } = await show(id);
      throw AppError.public("call.no_result", `${id} has no result: ${result.reason ?? NO_RESULT.gone}`);
    },

    async forget(id, reason) {
      const forgotten = await own.forget(id, reason);
      const before = forgotten.kind === "before" ? toIso(forgotten.at) : null;
      return { changed: before === null, forgotten_before: before };
    },
  };
}

/** Creates the functions that read and change a call in its partition. */
function operationsIn(deps: OperateDeps) {
  return { readLife: createReadLife(deps.partition), forget: createForget(deps) };
}

/** Creates the functions that read or copy the body and result of a call in its partition. */
function bodiesIn(deps: OperateDeps) {
  const { partition } = deps;
  return {
    readBody: createReadBody(partition),
    readResult: createResults(partition).read,
    readKept: createReadKept(partition),
    replay: createReplayDelivered(deps),
  };
}

function whyNotKept(state: string, origin: string | null): string {
  if (origin !== null && origin !== "webhook") return `its origin is ${origin}, not webhook`;
  if (state !== "injected")
    return `it is ${state}, and only a delivered webhook that is kept (keep_delivered) can be replayed as a new call`;
  return "its endpoint does not keep webhooks (keep_delivered), or no longer keeps this one";
}

const NO_RESULT = {
  too_long: "the runner's answer was too long to keep",
  failure: "the runner reported that the call failed for good",
  pending: "it is not available yet",
  gone: "it is no longer kept",
  "none kept": "the job or endpoint does not keep results",
  unknown: "it is not available yet",
} satisfies Record<Exclude<CallLife["result"]["kind"], "answer" | "failed">, string>;

function toSearch({ q: text, delivery_id: deliveryId, since, until, code, ...asked }: CallSearch): Search {
  const times = { since: askedMs(since), until: askedMs(until) };
  return { ...asked, ...times, text, deliveryId, code: code === undefined ? undefined : toCode(code) };
}

function toFoundView({ deliveryId, acceptedAt, endedAt, at, ...call }: FoundCall): FoundCallView {
  const { id, state, origin, job, endpoint, payer, transaction, event, attempts, code, reason } = call;
  return {
    id,
    state,
    at: toIso(at),
    origin: origin ?? null,
    job: job ?? null,
    endpoint: endpoint ?? null,
    delivery_id: deliveryId ?? null,
    payer: payer ?? null,
    transaction: transaction ?? null,
    event: event ?? null,
    accepted_at: isoOrNull(acceptedAt),
    ended_at: isoOrNull(endedAt),
    attempts: attempts ?? null,
    code: code ?? null,
    reason: reason ?? null,
  };
}

function toLifeView(life: CallLife, decimalsOf: DecimalsOf): CallLifeView {
  const { id, state, changedAt, origin, job, place, head, steps, result, payment } = life;
  const ids = job === undefined ? undefined : idsOfKey(job);
  return {
    call_id: id,
    state,
    changed_at: isoOrNull(changedAt),
    origin: origin ?? null,
    service_id: ids?.serviceId ?? null,
    job_id: ids?.jobIndex ?? null,
    queue: place === undefined ? null : { name: place.queue, as: place.as, due_at: isoOrNull(place.dueAt) },
    timeline: steps.map(({ kind, at, ...more }) => ({ at: toIso(at), what: kind, ...snakeCased(more) })),
    content_type: head?.content_type ?? null,
    bytes: head?.bytes ?? payment?.terms.body_bytes ?? null,
    sha256: head?.sha256 ?? null,
    traceparent: head?.traceparent ?? null,
    metadata: head?.metadata ?? null,
    endpoint: head?.metadata[WEBHOOK_PATH] ?? life.remembered?.endpoint ?? null,
    delivery_id: head?.metadata[WEBHOOK_DELIVERY_ID] ?? life.remembered?.deliveryId ?? null,
    attempts: life.attempts ?? null,
    replays: life.replays,
    body_kept: life.storedBytes > 0,
    result: toResultView(state, result),
    payment: payment === undefined ? null : toPaymentView(payment, decimalsOf),
    forgotten_at: isoOrNull(life.forgottenAt),
    replay_of: head?.metadata[WEBHOOK_REPLAY_OF] ?? null,
  };
}

function toResultView(state: string, result: CallLife["result"]): CallLifeView["result"] {
  const { kind: what } = result;
  if (what === "answer") return { what, reason: null, bytes: result.bytes };
  const hasFailed = state === "discarded" ? "the call failed before it was discarded" : "the call failed";
  if (what === "failed") {
    const { code, title = null, detail = null } = result;
    const said = [title, detail].filter((text) => text !== null).join("; ");
    const reason = [hasFailed, code, said].filter((text) => text !== "").join(": ");
    return { what, reason, code, title, detail };
  }
  if (what !== "unknown" && what !== "none kept") return { what, reason: NO_RESULT[what] };
  const ended = { failed: "the call failed", discarded: "the call was discarded" }[state];
  return { what, reason: ended ?? NO_RESULT[what] };
}

/** Converts keys to snake_case, and leaves out undefined values. */
function snakeCased(fields: object): Partial<z.infer<typeof Step>> {
  const named = Object.entries(fields).flatMap(([name, value]: [string, unknown]) =>
    value === undefined ? [] : [[name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]],
  );
  return Object.fromEntries(named) as Partial<z.infer<typeof Step>>;
}
