import { z } from "zod";
import { createAllPayments } from "../payments/all-payments.ts";
import { PaymentJournal } from "../payments/journal.ts";
import { isDisputed } from "../payments/list.ts";
import { createAcknowledge } from "../payments/resolve.ts";
import { optionWords, shellLine } from "../platform/text/shell-quote.ts";
import { toIso } from "../platform/time/iso.ts";
import type { OperatorDeps } from "../queue/operate.ts";
import { MissingCall, namedCalls } from "./failed-bulk.ts";
import { PaymentFilter, toFilter, unknownPayment } from "./payments.ts";
import type { Run } from "./runs/run.ts";
import { RunHead, toHead } from "./runs/view.ts";
import type { DoRun } from "./runs/worker.ts";
import { count, reason } from "./view.ts";

const DisputedFilter = PaymentFilter.pick({ state: true, payer: true, since: true, until: true });

/** Selects the disputed payments to acknowledge, with the reason. */
export const AcknowledgeOrder = z.strictObject({
  filter: DisputedFilter.default({}),
  call_ids: namedCalls.optional(),
  /** Selects every disputed payment. Required if no payment is named and the filter is empty. */
  all: z.literal(true).optional(),
  reason,
});
export type AcknowledgeOrder = z.infer<typeof AcknowledgeOrder>;

const Progress = z.object({
  done: count,
  unchanged: count,
  unknown: z.array(z.string()),
  /** Number of payments processed so far. With `call_ids`, a resumed operation skips this many ids. */
  seen: count,
});

/** The state of a bulk operation that acknowledges disputed payments. */
export const AcknowledgeView = RunHead.extend({
  kind: z.literal("acknowledge"),
  done: count,
  /**
   * Number of payments left unchanged, because they are not disputed or were acknowledged before. The process of this
   * operation may die just after it has acknowledged a payment. The process that continues then counts this payment
   * here.
   */
  unchanged: count,
  /** The payments that the request names by their ids and that are unknown, each with the reason. */
  missing: z.array(MissingCall),
}).meta({ id: "AcknowledgeBulk" });
export type AcknowledgeView = z.infer<typeof AcknowledgeView>;

/**
 * Performs bulk operations that acknowledge disputed payments. Without ids, selects only payments that were disputed
 * before the operation began, because the operator has not seen later disputes.
 */
export function acknowledgeBulk({ partitions, clock, log }: Omit<OperatorDeps, "by">): DoRun {
  const payments = createAllPayments(partitions);
  const journals = partitions.map((partition) => new PaymentJournal(partition));

  async function* selectPayments({ call_ids: ids, filter }: AcknowledgeOrder, { at }: Run, seen: number) {
    if (ids !== undefined) return yield* ids.slice(seen);
    for await (const { id } of payments.disputed(toFilter(filter), at)) yield id;
  }

  return async ({ run, signal, storeProgressSoon }) => {
    const order = AcknowledgeOrder.parse(run.request);
    const by = run.resumedBy ?? run.by;
    const acknowledges = journals.map((journal) => createAcknowledge({ journal, clock, log, by }));
    const why = { selection: acknowledgeSelection(order), reason: order.reason, run: run.id };
    const progress = progressOf(run);
    for await (const id of selectPayments(order, run, progress.seen)) {
      if (signal.aborted) return;
      const [payment] = await payments.read([id]);
      if (payment === undefined) progress.unknown.push(id);
      else if (isDisputed(payment) && (await acknowledges.of(id)(id, why))) progress.done += 1;
      else progress.unchanged += 1;
      progress.seen += 1;
      storeProgressSoon(progress);
    }
  };
}

function progressOf({ progress }: Run): z.infer<typeof Progress> {
  return Progress.parse(progress ?? { done: 0, unchanged: 0, unknown: [], seen: 0 });
}

/**
 * Says for the audit log which payments the operator selected: `by id`, or the filter as options of a command, such as
 * `--state review`.
 */
export function acknowledgeSelection(request: unknown): string {
  const { call_ids: ids, filter } = AcknowledgeOrder.parse(request);
  if (ids !== undefined) return "by id";
  const { state, payer, since, until } = filter;
  const time = (text: string | undefined) => text && toIso(Date.parse(text));
  const words = optionWords({
    "--state": state,
    "--payer": payer,
    "--since": time(since),
    "--until": time(until),
  });
  return shellLine(words.length === 0 ? ["--all"] : words);
}

export function toAcknowledgeView(run: Run): AcknowledgeView {
  const { done, unchanged, unknown } = progressOf(run);
  return {
    ...toHead(run, acknowledgeSelection(run.request)),
    kind: "acknowledge",
    done,
    unchanged,
    missing: unknown.map((id) => {
      const { code, message } = unknownPayment(id);
      return { code, detail: message };
    }),
  };
}
