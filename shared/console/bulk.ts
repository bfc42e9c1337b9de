import { z } from "zod";
import type { Origin } from "../call/origin.ts";
import { createAllPayments } from "../payments/all-payments.ts";
import type { PaymentState } from "../payments/payment.ts";
import { optionWords, shellLine } from "../platform/text/shell-quote.ts";
import { toIso } from "../platform/time/iso.ts";
import { createAllFailed } from "../queue/all-failed.ts";
import { createDiscard } from "../queue/discard.ts";
import type { FailedCall } from "../queue/failed.ts";
import {
  type ManyResult,
  type OperatorDeps,
  operateIn,
  operateMany,
  type Progress,
  select,
} from "../queue/operate.ts";
import { originOf } from "../queue/queue-name.ts";
import { createReplay } from "../queue/replay.ts";
import { inPages } from "../redis/pages.ts";
import { type FailedFilter, isTooOld, toCallFilter, whereIs } from "./failed.ts";
import { type Adding, createPaidSum, PaidSum, type PartialSum } from "./paid-sum.ts";
import { decimalsFrom, type TokenSource } from "./tokens.ts";
import { count } from "./view.ts";

export const BULK_ACTIONS = ["replay", "discard"] as const;
export type BulkAction = (typeof BULK_ACTIONS)[number];

/** The action in the line that the audit log gets when a bulk operation begins, by the kind of operation. */
export const BEGINS = {
  replay: "begin_replay",
  discard: "begin_discard",
  acknowledge: "begin_acknowledge",
  audit: "begin_audit",
  "refund-check": "begin_refund_check",
} as const;

/** Selects the failed calls to replay or discard, with options. */
export type BulkRequest = {
  action: BulkAction;
  /**
   * Selects calls by their properties. Without `ids`, set `until` to the present or earlier. Otherwise calls that fail
   * before they are counted are selected too.
   */
  filter: FailedFilter;
  /** Ids of the calls to select. Only those that also match the filter are selected. */
  ids?: readonly string[] | undefined;
  /** Limit on the number of selected calls; the oldest are selected. */
  limit?: number | undefined;
  /**
   * Whether a replay includes calls that were accepted so long ago that their runner may have forgotten them and run them
   * twice.
   */
  force: boolean;
  /** Number of calls that are processed at once. */
  concurrency: number;
  reason?: string | undefined;
  /** Id of the bulk operation, for its lines in the audit log. */
  run?: string | undefined;
};

/** Counts of the selected calls, made before the first change. */
export const Counted = z.object({
  matched: count,
  /** Number of matched calls that will be replayed or discarded. The others are too old to be replayed without `force`. */
  chosen: count,
  /** Time at which the newest matched call failed, unix ms. */
  newest: z.number(),
  by_code: z.record(z.string(), count),
  /** Sum paid for the chosen calls, which a discard makes due as refunds. Null for a replay. */
  paid: PaidSum.nullable(),
  /** Ids of calls that are too old to be replayed without `force`, at most 1000. */
  needs_force: z.array(z.string()),
  /** The calls that the request names by id and that are not failed calls, each with the reason. */
  missing: z.array(z.object({ code: z.string(), detail: z.string() })),
});
export type Counted = z.infer<typeof Counted>;

export type BulkApi = {
  /** Counts the calls and changes nothing. */
  count(request: BulkRequest, signal: AbortSignal): Promise<Counted>;
  /** Replays or discards the counted calls, except those that are no longer failed. */
  operate(request: BulkRequest, counted: Counted, work: Work): Promise<BulkResult>;
};

/**
 * `refundsDue` is the sum paid for the calls that this bulk discard has ended. Their refunds are now due. Null for a bulk
 * replay. The sum lacks a payment if another operation discarded its call. It also lacks one if a process of this discard
 * died just after it had discarded the call.
 */
type Due = { refundsDue: PartialSum | null };

export type BulkProgress = Progress & Due;
export type BulkResult = ManyResult & Due;

type Work = {
  signal: AbortSignal;
  onProgress: (progress: BulkProgress) => void;
  /** Called for each call after it was replayed or discarded, also if another operator has done that. */
  onDone?: (id: string) => void;
  /** Progress that an earlier process has stored, if this process continues an interrupted bulk operation. */
  before?: Pick<BulkProgress, "done" | "left" | "refundsDue">;
};

/** Limit on the listed ids of calls that need `force`. */
const NAMED_MAX = 1000;
/** Number of payments that are read at once. */
const PAYMENTS_AT_ONCE = 100;

/**
 * States of a payment whose refund becomes due when its failed call is discarded. In the other states the job is done, the
 * payment was not made, or its refund is already exported.
 */
const MADE_DUE_BY_DISCARD: readonly PaymentState[] = ["FAILED", "QUEUED", "DISCARDED"];

type Deps = OperatorDeps & { runnerMemoryMs: number; tokens: Pick<TokenSource, "names"> };

/**
 * Replays or discards many failed calls. Reads them twice, first to count them and then to change them, so that they need
 * not all be in memory. Skips calls that failed after the count. So a call that was replayed and fails again is not
 * replayed a second time.
 */
export function createBulk({ runnerMemoryMs, tokens, ...deps }: Deps): BulkApi {
  const { partitions, clock } = deps;
  const calls = createAllFailed(partitions);
  const payments = createAllPayments(partitions);
  const decimalsOf = decimalsFrom(tokens);
  const operations = { replay: operateIn(createReplay, deps), discard: operateIn(createDiscard, deps) };

  function selectCalls({ filter, ids }: BulkRequest, until?: number) {
    const wanted = toCallFilter(filter);
    return { ...wanted, ids, until: until ?? wanted.until };
  }

  /**
   * Passes the calls on. Before that, adds their payments to `paid`, but only those whose refund becomes due if the call
   * is discarded.
   */
  async function* addPaidSums(selected: AsyncIterable<FailedCall>, paid: Adding): AsyncGenerator<FailedCall> {
    for await (const page of inPages(selected, PAYMENTS_AT_ONCE)) {
      const found = await payments.read(page.filter(isPaidFor).map(({ id }) => id));
      for (const payment of found)
        if (payment === undefined || MADE_DUE_BY_DISCARD.includes(payment.state)) paid.add(payment);
      yield* page;
    }
  }

  function needsForce({ action, force }: BulkRequest) {
    const now = clock();
    return (call: FailedCall) => action === "replay" && !force && isTooOld(call, runnerMemoryMs, now);
  }

  return {
    async count(request, signal) {
      const { ids = [], limit = Number.POSITIVE_INFINITY } = request;
      const paid = request.action === "discard" ? createPaidSum(decimalsOf) : undefined;
      const selected = select(calls, selectCalls(request), { limit, signal });
      const counting = paid === undefined ? selected : addPaidSums(selected, paid);
      const { found, ...counted } = await countAll(counting, needsForce(request), ids.length > 0);
      const absent = signal.aborted ? [] : ids.filter((id) => !found.has(id));
      const missing = await Promise.all(absent.map(async (id) => whereIs(partitions.of(id), id)));
      return {
        ...counted,
        paid: paid?.sum() ?? null,
        missing: missing.map(({ code, message }) => ({ code, detail: message })),
      };
    },

    async operate(request, counted, { signal, onProgress, onDone, before = NO_PROGRESS }) {
      const { action, concurrency, reason, run, limit = Number.POSITIVE_INFINITY } = request;
      const due = action === "discard" ? createPaidSum(decimalsOf, before.refundsDue) : undefined;
      let isWhole = before.refundsDue?.is_whole ?? true;
      const again = select(calls, selectCalls(request, counted.newest), { limit, signal });
      const ended = before.done + before.left;
      const withBefore = <Result extends Progress>(result: Result): Result & Due => ({
        ...result,
        done: result.done + before.done,
        left: result.left + before.left,
        total: counted.chosen,
        refundsDue: due === undefined ? null : { ...due.sum(), is_whole: isWhole && result.left === 0 },
      });
      const result = await operateMany(excluding(again, needsForce(request)), {
        total: counted.chosen - ended,
        operate: async (call, why) => {
          const operated = await operations[action](call, why);
          if (operated === "done" && due !== undefined && isPaidFor(call)) {
            const [payment] = await payments.read([call.id]);
            if (payment === undefined || payment.state === "DISCARDED") due.add(payment);
          }
          if (operated === "finished" && isPaidFor(call)) isWhole = false;
          onDone?.(call.id);
          return operated;
        },
        why: { selection: selectionOf(request), reason, run },
        concurrency,
        signal,
        onProgress: (progress) => onProgress(withBefore(progress)),
      });
      return withBefore(result);
    },
  };
}

/** Progress of a bulk operation that has just begun. */
export const NO_PROGRESS = { done: 0, left: 0, refundsDue: null } as const;

function isPaidFor({ queue }: Pick<FailedCall, "queue">): boolean {
  return originOf(queue) === ("x402" satisfies Origin);
}

type Counting = Omit<Counted, "missing" | "paid"> & { found: Set<string> };

async function countAll(
  selected: AsyncIterable<FailedCall>,
  needsForce: (call: FailedCall) => boolean,
  isNamed: boolean,
): Promise<Counting> {
  const counted: Counting = {
    matched: 0,
    chosen: 0,
    newest: 0,
    by_code: {},
    needs_force: [],
    found: new Set(),
  };
  for await (const call of selected) {
    const { id, failedAt, code } = call;
    counted.matched += 1;
    counted.newest = Math.max(counted.newest, failedAt);
    counted.by_code[code] = (counted.by_code[code] ?? 0) + 1;
    if (isNamed) counted.found.add(id);
    if (!needsForce(call)) counted.chosen += 1;
    else if (counted.needs_force.length < NAMED_MAX) counted.needs_force.push(id);
  }
  return counted;
}

async function* excluding<Item>(items: AsyncIterable<Item>, isLeftOut: (item: Item) => boolean) {
  for await (const item of items) if (!isLeftOut(item)) yield item;
}

/**
 * Returns the text for the audit log about the selection. It is `by id`, or the options of a command that selects the same
 * calls.
 */
export function selectionOf({ filter, ids }: Pick<BulkRequest, "filter" | "ids">): string {
  if (ids !== undefined) return "by id";
  const words = filterWords(filter);
  return shellLine(words.length === 0 ? ["--all"] : words);
}

/** Writes a filter as the options of a command that selects the same calls. */
export function filterWords(filter: FailedFilter): string[] {
  const { origin, endpoint, service_id, job_id, code, text, since, until } = filter;
  const time = (text: string | undefined) => (text === undefined ? undefined : toIso(Date.parse(text)));
  return optionWords({
    "--origin": origin,
    "--endpoint": endpoint,
    ...jobOption({ service_id, job_id }),
    "--code": code,
    "--text": text,
    "--since": time(since),
    "--until": time(until),
  });
}

/**
 * Writes the job as an option. The API, unlike the commands, also accepts a job index without a service. The audit log
 * then has `*` as the service.
 */
function jobOption({ service_id, job_id }: FailedFilter) {
  if (job_id === undefined) return { "--service-id": service_id?.toString() };
  return { "--job": `${service_id ?? "*"}/${job_id}` };
}
