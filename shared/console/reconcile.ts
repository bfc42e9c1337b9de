import { z } from "zod";
import { CALL_ID } from "../call/call-id.ts";
import { PaymentJournal } from "../payments/journal.ts";
import { createDue, createPaymentList, LOOKED_AT_MAX } from "../payments/list.ts";
import type { PaymentState } from "../payments/payment.ts";
import { delay } from "../platform/time/clock.ts";
import type { OperateDeps } from "../queue/operate.ts";
import { createAudit } from "../redis/audit/audit.ts";
import { fromCursor, next, type PageAsked, toCursor } from "./cursor.ts";

const POLL_MS = 100;
/** How long a gateway that has taken a payment up may need to change its state. */
const UNDER_WAY_MS = 3000;

/** What came of a look that was asked for. */
export const Reconciled = z.object({
  call_id: z.string(),
  /** Null of a payment that is unknown. */
  state_before: z.string().nullable(),
  state: z.string().nullable(),
  /** Whether a gateway has looked; null if none looks after this payment. */
  looked: z.boolean().nullable(),
});
export type Reconciled = z.infer<typeof Reconciled>;

/** When a payment is looked at next, unix ms. */
const DuePlace = z.strictObject({ at: z.number(), id: z.string().regex(CALL_ID) });

export const InFlightPage = z.object({ call_ids: z.array(z.string()), next });
export type InFlightPage = z.infer<typeof InFlightPage>;

/** Makes payments due, with a line in the audit, and watches what the gateways make of them. One that takes a payment up moves its next due time, or takes it off. */
export function createReconcile({ partition, clock, log, by }: OperateDeps) {
  const due = createDue(partition);
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
      if (dueAt !== pushedAt && !looked) [looked, until] = [true, Math.min(deadline, now + UNDER_WAY_MS)];
      if (now >= until) return { state, looked };
      await delay(POLL_MS);
    }
  }

  return {
    async reconcile(id: string, waitMs: number): Promise<Reconciled> {
      const { state: before, dueAt } = await look(id);
      const known = { call_id: id, state_before: before?.toLowerCase() ?? null };
      if (before === undefined || dueAt === undefined)
        return { ...known, state: known.state_before, looked: null };
      await audit({ at: clock(), action: "reconcile", callId: id, by, selection: "by id" });
      const pushedAt = await journal.lookAgain(id, 0);
      const { state, looked } = await watch(id, before, pushedAt, clock() + waitMs);
      return { ...known, state: state?.toLowerCase() ?? null, looked };
    },

    async inFlight({ limit, cursor }: PageAsked): Promise<InFlightPage> {
      const found: z.infer<typeof DuePlace>[] = [];
      let lookedAt = 0;
      for await (const places of due.soonestFirst(fromCursor(DuePlace, cursor))) {
        const read = await payments.read(places.map(({ id }) => id));
        found.push(...places.filter((_, i) => isInFlight(read[i]?.state)));
        lookedAt += places.length;
        const shown = found.slice(0, limit);
        const call_ids = shown.map(({ id }) => id);
        if (found.length > limit) return { call_ids, next: toCursor(shown.at(-1)) };
        if (lookedAt >= LOOKED_AT_MAX) return { call_ids, next: toCursor(places.at(-1)) };
      }
      return { call_ids: found.map(({ id }) => id), next: null };
    },
  };
}

function isInFlight(state: PaymentState | undefined): boolean {
  return state !== undefined && state !== "QUEUED" && state !== "FAILED";
}
