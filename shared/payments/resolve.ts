import type { Audit } from "../audit/audit.ts";
import type { CountOnce } from "../series/count-once.ts";
import type { Clock } from "../time/clock.ts";
import type { Found, PaymentJournal } from "./journal.ts";
import { type Decision, type Payment, settledFields, toSettlement } from "./payment.ts";
import { TRANSFER_TAKEN } from "./scripts.ts";

/**
 * An operator's decision on a payment in REVIEW, or that he has seen what contradicts one whose call has run. `positions` are those of
 * transfers that may be the payment's (`positionIn`): the first one pays for it that pays for no other. None if no chain was asked.
 */
export type Verdict =
  | { kind: "settled"; transaction: string; positions: readonly number[] }
  | { kind: "void" }
  | { kind: "acknowledged" };

/** `left`: there was nothing to decide any more; nothing was done. */
type Resolved = { kind: "done" } | { kind: "left"; state: Found };

const ACTIONS = { settled: "settle", void: "void", acknowledged: "acknowledge" } as const;

/** The reason that the payer sees. */
const BY_OPERATOR = "by the operator's decision";

/**
 * Ends a REVIEW by an operator's decision; `by` is the operator. The call of a settled payment is in its queue then; a void
 * payment loses its body; one that is acknowledged stays as it is. Operator and reason are stored with the change, and then in the
 * audit. A payment in any other state is left alone.
 */
export function createResolve({
  journal,
  audit,
  count,
  clock,
  by,
}: {
  journal: PaymentJournal;
  audit: Audit;
  /** Counts what was earned. */
  count?: CountOnce;
  clock: Clock;
  by: string;
}) {
  return async function resolve(payment: Payment, verdict: Verdict, reason: string): Promise<Resolved> {
    const decision = { by, reason };
    if (verdict.kind === "acknowledged") {
      if (!(await journal.acknowledge(payment.id, decision))) return { kind: "left", state: payment.state };
    } else {
      const found = await decide(payment, verdict, decision);
      if (found !== "REVIEW") return { kind: "left", state: found };
      if (verdict.kind === "settled") {
        const { transaction } = verdict;
        await count?.("payment.settled", settledFields(payment, { transaction, by: "operator" }));
      }
    }
    await audit({
      at: clock(),
      action: ACTIONS[verdict.kind],
      callId: payment.id,
      by,
      selection: "by id",
      reason,
      ...(verdict.kind === "settled" && { transaction: verdict.transaction }),
    });
    return { kind: "done" };
  };

  /** Returns the state found. */
  async function decide(
    payment: Payment,
    verdict: Exclude<Verdict, { kind: "acknowledged" }>,
    decided: Decision,
  ): Promise<Found> {
    if (verdict.kind === "settled") return enqueue(payment, verdict, decided);
    return journal.markVoid(payment, { reason: BY_OPERATOR, decided }, { now: clock(), from: ["REVIEW"] });
  }

  async function enqueue(
    payment: Payment,
    { transaction, positions }: Extract<Verdict, { kind: "settled" }>,
    decided: Decision,
  ): Promise<Found> {
    const places = positions.length === 0 ? [{}] : positions.map((position) => ({ position }));
    let found: Found = TRANSFER_TAKEN;
    for (const place of places) {
      const settlement = { ...toSettlement(payment, { transaction, by: "operator", ...place }), decided };
      const times = { now: clock(), from: ["REVIEW"], dueAt: clock() } as const;
      found = await journal.enqueueSettled(payment, { settlement, proven: false }, times);
      if (found !== TRANSFER_TAKEN) break;
    }
    return found;
  }
}
