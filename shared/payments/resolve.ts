import { type Audit, type AuditEntry, auditWords, logAudited } from "../audit/audit.ts";
import { failpoint } from "../lifecycle/failpoint.ts";
import type { Logger } from "../log/logger.ts";
import type { CountOnce } from "../series/count-once.ts";
import type { Clock } from "../time/clock.ts";
import type { Found, PaymentJournal } from "./journal.ts";
import { type Decision, type Payment, settledFields, toSettlement } from "./payment.ts";
import { CALL_DROPPED, DROPPED, TRANSFER_TAKEN } from "./scripts.ts";

/**
 * An operator's decision on a payment in REVIEW, or that he has seen what contradicts one whose call has run; or that the body of one whose
 * outcome is open is dropped. `positions` are those of
 * transfers that may be the payment's (`positionIn`): the first one pays for it that pays for no other. None if no chain was asked.
 */
export type Verdict =
  | { kind: "settled"; transaction: string; positions: readonly number[] }
  | { kind: "void" }
  | { kind: "acknowledged" }
  | { kind: "dropped" };

/** `left`: there was nothing to decide any more; nothing was done. */
type Resolved = { kind: "done" } | { kind: "left"; state: Found };

const ACTIONS = { settled: "settle", void: "void", acknowledged: "acknowledge", dropped: "drop" } as const;

/** The reason that the payer sees. */
const BY_OPERATOR = "by the operator's decision";

/**
 * Ends a REVIEW by an operator's decision; `by` is the operator. The call of a settled payment is in its queue then; a void
 * payment loses its body; one that is acknowledged stays as it is. Operator and reason are stored with the change, and then in the
 * audit. The body of a payment in SETTLING or in REVIEW can be dropped, in one step with its line in the audit. A payment in any other
 * state is left alone.
 */
export function createResolve({
  journal,
  audit,
  count,
  clock,
  log,
  by,
}: {
  journal: PaymentJournal;
  audit: Audit;
  /** Counts what was earned. */
  count?: CountOnce;
  clock: Clock;
  log: Logger;
  by: string;
}) {
  return async function resolve(payment: Payment, verdict: Verdict, reason: string): Promise<Resolved> {
    const { kind } = verdict;
    const decision = { by, reason };
    const entry = { at: clock(), action: ACTIONS[kind], callId: payment.id, by, selection: "by id", reason };
    if (kind === "dropped") return drop(payment, decision, entry);
    const resolved = await (kind === "acknowledged"
      ? acknowledge(payment, decision)
      : decide(payment, verdict, decision));
    if (resolved.kind === "left") return resolved;
    await audit({ ...entry, ...(kind === "settled" && { transaction: verdict.transaction }) });
    return resolved;
  };

  async function drop({ id }: Payment, decision: Decision, entry: AuditEntry): Promise<Resolved> {
    failpoint("operator.before_dropped");
    const found = await journal.drop(id, decision, auditWords(entry));
    failpoint("operator.after_dropped");
    if (found !== DROPPED) return { kind: "left", state: found };
    logAudited(log, entry);
    return { kind: "done" };
  }

  async function acknowledge({ id, state }: Payment, decision: Decision): Promise<Resolved> {
    return (await journal.acknowledge(id, decision)) ? { kind: "done" } : { kind: "left", state };
  }

  async function decide(
    payment: Payment,
    verdict: Exclude<Verdict, { kind: "acknowledged" | "dropped" }>,
    decided: Decision,
  ): Promise<Resolved> {
    if (verdict.kind === "void") {
      const ending = { reason: BY_OPERATOR, decided };
      const state = await journal.markVoid(payment, ending, { now: clock(), from: ["REVIEW"] });
      return state === "REVIEW" ? { kind: "done" } : { kind: "left", state };
    }
    const found = await enqueue(payment, verdict, decided);
    if (found !== "REVIEW" && found !== CALL_DROPPED) return { kind: "left", state: found };
    const { transaction } = verdict;
    await count?.("payment.settled", settledFields(payment, { transaction, by: "operator" }));
    return { kind: "done" };
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
      const from = { from: ["REVIEW"], dueInMs: 0 } as const;
      found = await journal.enqueueSettled(payment, { settlement, proven: false }, from);
      if (found !== TRANSFER_TAKEN) break;
    }
    return found;
  }
}
