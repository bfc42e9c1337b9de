import { z } from "zod";
import { CALL_ID } from "../call/call-id.ts";
import { PaymentJournal } from "../payments/journal.ts";
import { createDueList, createPaymentList, lookedAtMax } from "../payments/list.ts";
import type { PaymentState } from "../payments/payment.ts";
import { delay } from "../platform/time/clock.ts";
import type { OperateDeps } from "../queue/operate.ts";
import { createAudit } from "../redis/audit/audit.ts";
import { askAll, mergedPage } from "../redis/merge.ts";
import type { Partition, Partitions } from "../redis/partition.ts";
import { fromCursor, next, type PageRequest, toCursor } from "./cursor.ts";

const POLL_MS = 100;
/** Maximum wait for a change of state, once a gateway has begun the check. */
const CHECK_MS = 3000;

/** Result of a requested check. */
export const Reconciled = z.object({
  call_id: z.string(),
  /** State of the payment before the check; null if the payment is unknown. */
  state_before: z.string().nullable(),
  state: z.string().nullable(),
  /** Whether a gateway has checked the payment; null if no gateway has to check it. */
  looked: z.boolean().nullable(),
});
export type Reconciled = z.infer<typeof Reconciled>;

/** Position in the list of payments in flight: a payment, and the time of its next check (unix ms). */
const DuePlace = z.strictObject({ at: z.number(), id: z.string().regex(CALL_ID) });
type DuePlace = z.infer<typeof DuePlace>;

export const InFlightPage = z.object({ call_ids: z.array(z.string()), next });
export type InFlightPage = z.infer<typeof InFlightPage>;

/**
 * Makes a payment due for a check, writes a line in the audit log, and waits for the result. A gateway that begins the
 * check changes or removes the payment's due time. Until then the check has not begun.
 */
export function createReconcile({ partition, clock, log, by }: OperateDeps) {
  const due = createDueList(partition);
  const journal = new PaymentJournal(partition);
  const payments = createPaymentList(partition);
  const audit = createAudit(partition, log);

  async function look(id: string) {
    const [[payment], dueAt] = await Promise.all([payments.read([id]), due.at(id)]);
    return { state: payment?.state, dueAt };
  }

  async function watch(id: string, before: PaymentState, pushedAt: number, deadline: number) {
    let until = deadline;
    let looked = false;
    for (;;) {
      const { state, dueAt } = await look(id);
      if (state !== before || dueAt === undefined) return { state, looked: true };
      const now = clock();
      if (dueAt !== pushedAt && !looked) [looked, until] = [true, Math.min(deadline, now + CHECK_MS)];
      if (now >= until) return { state, looked };
      await delay(POLL_MS);
    }
  }

  return async function reconcile(id: string, waitMs: number): Promise<Reconciled> {
    const { state: before, dueAt } = await look(id);
    const known = { call_id: id, state_before: before?.toLowerCase() ?? null };
    if (before === undefined || dueAt === undefined)
      return { ...known, state: known.state_before, looked: null };
    await audit({ at: clock(), action: "reconcile", callId: id, by, selection: "by id" });
    const pushedAt = await journal.reschedule(id, 0);
    const { state, looked } = await watch(id, before, pushedAt, clock() + waitMs);
    return { ...known, state: state?.toLowerCase() ?? null, looked };
  };
}

/** Lists the payments that gateways still check, in all partitions (`inFlight` of `PaymentsApi`). */
export function createInFlight(partitions: Partitions) {
  const each = partitions.map(createInFlightIn);
  return async function inFlight({ limit, cursor }: PageRequest): Promise<InFlightPage> {
    const after = fromCursor(DuePlace, cursor);
    const pages = await askAll(each, (read) => read(limit, after));
    const { items, next } = mergedPage(pages, { limit, isBefore: isSooner, placeOf: (place) => place });
    return { call_ids: items.map(({ id }) => id), next: toCursor(next) };
  };
}

function createInFlightIn(partition: Partition) {
  const due = createDueList(partition);
  const payments = createPaymentList(partition);
  return async (limit: number, after: DuePlace | undefined) => {
    const found: DuePlace[] = [];
    let lookedAt = 0;
    for await (const places of due.soonestFirst(after)) {
      const read = await payments.read(places.map(({ id }) => id));
      found.push(...places.filter((_, i) => isInFlight(read[i]?.state)));
      lookedAt += places.length;
      const items = found.slice(0, limit);
      if (found.length > limit) return { items, next: items.at(-1) };
      if (lookedAt >= lookedAtMax(partition)) return { items, next: places.at(-1) };
    }
    return { items: found, next: undefined };
  };
}

function isSooner(a: DuePlace, b: DuePlace): boolean {
  return a.at < b.at || (a.at === b.at && a.id < b.id);
}

function isInFlight(state: PaymentState | undefined): boolean {
  return state !== undefined && state !== "QUEUED" && state !== "FAILED";
}
