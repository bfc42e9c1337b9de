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

/** The disputed payments that an operator acknowledges, and why. */
export const AcknowledgeOrder = z.strictObject({
  filter: DisputedFilter.default({}),
  call_ids: namedCalls.optional(),
  /** Every disputed payment. Needed if no payment is named and the filter is empty. */
  all: z.literal(true).optional(),
  reason,
});
export type AcknowledgeOrder = z.infer<typeof AcknowledgeOrder>;

const Progress = z.object({
  done: count,
  unchanged: count,
  unknown: z.array(z.string()),
  /** How many of the named payments it has come to. */
  seen: count,
});

/** The state of a bulk operation that acknowledges disputed payments. */
export const AcknowledgeView = RunHead.extend({
  kind: z.literal("acknowledge"),
  done: count,
  /**
   * Payments that are not disputed, or no longer, and those that were acknowledged before; also one that was acknowledged in the moment in
   * which a process of the service died. They stay as they are.
   */
  unchanged: count,
  /** Of payments that were named, those that are unknown. */
  missing: z.array(MissingCall),
}).meta({ id: "AcknowledgeBulk" });
export type AcknowledgeView = z.infer<typeof AcknowledgeView>;

/** How a process does such operations. Without ids it takes only payments that were disputed before the run began: an operator has not seen the others. */
export function acknowledgeBulk({ partitions, clock, log }: Omit<OperatorDeps, "by">): DoRun {
  const payments = createAllPayments(partitions);
  const journals = partitions.map((partition) => new PaymentJournal(partition));

  async function* chosen({ call_ids: ids, filter }: AcknowledgeOrder, { at }: Run, seen: number) {
    if (ids !== undefined) return yield* ids.slice(seen);
    for await (const { id } of payments.disputed(toFilter(filter), at)) yield id;
  }

  return async ({ run, signal, tell }) => {
    const order = AcknowledgeOrder.parse(run.request);
    const by = run.resumedBy ?? run.by;
    const acknowledges = journals.map((journal) => createAcknowledge({ journal, clock, log, by }));
    const why = { selection: acknowledgeSelection(order), reason: order.reason, run: run.id };
    const progress = progressOf(run);
    for await (const id of chosen(order, run, progress.seen)) {
      if (signal.aborted) return;
      const [payment] = await payments.read([id]);
      if (payment === undefined) progress.unknown.push(id);
      else if (isDisputed(payment) && (await acknowledges.of(id)(id, why))) progress.done += 1;
      else progress.unchanged += 1;
      progress.seen += 1;
      tell(progress);
    }
  };
}

function progressOf({ progress }: Run): z.infer<typeof Progress> {
  return Progress.parse(progress ?? { done: 0, unchanged: 0, unknown: [], seen: 0 });
}

/** How the payments are chosen, for the audit: as the options of a command. */
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
