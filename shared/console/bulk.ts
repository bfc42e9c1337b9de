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

/** The lines in the audit with which they begin. */
export const BEGINS = {
  replay: "begin_replay",
  discard: "begin_discard",
  acknowledge: "begin_acknowledge",
  audit: "begin_audit",
  "refund-check": "begin_refund_check",
} as const;

/** Which failed calls are to be replayed or discarded, and how. */
export type BulkRequest = {
  action: BulkAction;
  /** If no call is named, `until` should be there, and at most now: what fails from now on is not chosen then. */
  filter: FailedFilter;
  /** Only these of the calls that match. */
  ids?: readonly string[] | undefined;
  /** At most so many, the oldest first. */
  limit?: number | undefined;
  /** Of a replay: also calls that their runner may run twice. */
  force: boolean;
  /** Calls at a time. */
  concurrency: number;
  reason?: string | undefined;
  /** The run that does it, for the lines in the audit. */
  run?: string | undefined;
};

/** What is kept of the calls that were counted before any of them is touched. */
export const Counted = z.object({
  matched: count,
  /** Those of them that will be replayed or discarded; the others need force. */
  chosen: count,
  /** When the last of them failed, unix ms. */
  newest: z.number(),
  by_code: z.record(z.string(), count),
  /** Of a discard: what was paid for the chosen calls, whose refunds become due by it. Null of a replay. */
  paid: PaidSum.nullable(),
  /** The first of those that need force. */
  needs_force: z.array(z.string()),
  /** Where each call is that was named and is not among the failed ones. */
  missing: z.array(z.object({ code: z.string(), detail: z.string() })),
});
export type Counted = z.infer<typeof Counted>;

export type BulkApi = {
  /** Counts the calls, and changes nothing. */
  count(request: BulkRequest, signal: AbortSignal): Promise<Counted>;
  /** Replays or discards those that were counted, as far as they are still there. */
  operate(request: BulkRequest, counted: Counted, work: Work): Promise<BulkResult>;
};

/**
 * Of a discard: what was paid for the calls that it has ended, and is due back now. It is not whole if calls had left, or another discard had
 * begun with them: this may have been one that died.
 */
type Due = { refundsDue: PartialSum | null };

export type BulkProgress = Progress & Due;
export type BulkResult = ManyResult & Due;

type Work = {
  signal: AbortSignal;
  onProgress: (progress: BulkProgress) => void;
  /** Told of each call that was replayed or discarded, or had left. */
  onDone?: (id: string) => void;
  /** What was done before, by a run that was ended in between. */
  before?: Pick<BulkProgress, "done" | "left" | "refundsDue">;
};

/** How many of the calls that need force are named. */
const NAMED_MAX = 1000;
/** Calls whose payments are read at once. */
const PAYMENTS_AT_ONCE = 100;

/** The refund of a failed call becomes due by its discard in these states. In others its job is done, or it was not paid for. */
const BECOME_DUE: readonly PaymentState[] = ["FAILED", "QUEUED", "DISCARDED"];

type Deps = OperatorDeps & { runnerMemoryMs: number; tokens: Pick<TokenSource, "names"> };

/**
 * Replays or discards many failed calls. They are counted first, and then read once more as they are operated on; a million of them need no
 * more memory than a few. The second time only those are chosen that had failed the first time: a call that fails again meanwhile is not
 * taken twice.
 */
export function createBulk({ runnerMemoryMs, tokens, ...deps }: Deps): BulkApi {
  const { partitions, clock } = deps;
  const calls = createAllFailed(partitions);
  const payments = createAllPayments(partitions);
  const decimalsOf = decimalsFrom(tokens);
  const operations = { replay: operateIn(createReplay, deps), discard: operateIn(createDiscard, deps) };

  function chosenBy({ filter, ids }: BulkRequest, until?: number) {
    const wanted = toCallFilter(filter);
    return { ...wanted, ids, until: until ?? wanted.until };
  }

  /** The same calls, once what was paid for them is added. */
  async function* addingPaid(selected: AsyncIterable<FailedCall>, paid: Adding): AsyncGenerator<FailedCall> {
    for await (const page of inPages(selected, PAYMENTS_AT_ONCE)) {
      const found = await payments.read(page.filter(isPaidFor).map(({ id }) => id));
      for (const payment of found)
        if (payment === undefined || BECOME_DUE.includes(payment.state)) paid.add(payment);
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
      const selected = select(calls, chosenBy(request), { limit, signal });
      const counting = paid === undefined ? selected : addingPaid(selected, paid);
      const { found, ...counted } = await countAll(counting, needsForce(request), ids.length > 0);
      const absent = signal.aborted ? [] : ids.filter((id) => !found.has(id));
      const missing = await Promise.all(absent.map(async (id) => whereIs(partitions.of(id), id)));
      return {
        ...counted,
        paid: paid?.sum() ?? null,
        missing: missing.map(({ code, message }) => ({ code, detail: message })),
      };
    },

    async operate(request, counted, { signal, onProgress, onDone, before = NOTHING_BEFORE }) {
      const { action, concurrency, reason, run, limit = Number.POSITIVE_INFINITY } = request;
      const due = action === "discard" ? createPaidSum(decimalsOf, before.refundsDue) : undefined;
      let isWhole = before.refundsDue?.is_whole ?? true;
      const again = select(calls, chosenBy(request, counted.newest), { limit, signal });
      const ended = before.done + before.left;
      const withBefore = <Result extends Progress>(result: Result): Result & Due => ({
        ...result,
        done: result.done + before.done,
        left: result.left + before.left,
        total: counted.chosen,
        refundsDue: due === undefined ? null : { ...due.sum(), is_whole: isWhole && result.left === 0 },
      });
      const result = await operateMany(without(again, needsForce(request)), {
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

/** Of a run that begins. */
export const NOTHING_BEFORE = { done: 0, left: 0, refundsDue: null } as const;

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

async function* without<Item>(items: AsyncIterable<Item>, isLeftOut: (item: Item) => boolean) {
  for await (const item of items) if (!isLeftOut(item)) yield item;
}

/** How the calls were chosen, for the audit: as the options of a command. */
export function selectionOf({ filter, ids }: Pick<BulkRequest, "filter" | "ids">): string {
  if (ids !== undefined) return "by id";
  const words = filterWords(filter);
  return shellLine(words.length === 0 ? ["--all"] : words);
}

/** A filter as the words of a command line that chooses the same calls. */
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

/** The API can name a job of any service, for which a command has no option. */
function jobOption({ service_id, job_id }: FailedFilter) {
  if (job_id === undefined) return { "--service-id": service_id?.toString() };
  return { "--job": `${service_id ?? "*"}/${job_id}` };
}
