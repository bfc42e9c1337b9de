import { failpoint } from "../platform/lifecycle/failpoint.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";
import type { AuditEntry } from "../redis/audit/actions.ts";
import { logAudited } from "../redis/audit/audit.ts";
import type { CountOnce } from "../telemetry/series/count-once.ts";
import type { FoundState, PaymentJournal } from "./journal.ts";
import { type Decision, type Payment, settledFields, toSettlement } from "./payment.ts";
import { CALL_DROPPED, DROPPED, TRANSFER_TAKEN } from "./scripts.ts";

/**
 * An operator's verdict on a payment. `settled` and `void` end a REVIEW, `acknowledged` concerns a disputed payment, and
 * `dropped` deletes the body of a payment that is SETTLING or in REVIEW.
 *
 * `positions` names transfers in the transaction that may have paid (`positionIn`). The first of them that pays for no other
 * call is assigned to the payment. `positions` is empty if the chain was not read.
 */
export type Verdict =
  | { kind: "settled"; transaction: string; positions: readonly number[] }
  | { kind: "void" }
  | { kind: "acknowledged" }
  | { kind: "dropped" };

/** Outcome of a verdict. `left`: the payment was no longer in a state to which the verdict applies, and nothing changed. */
type Resolved = { kind: "done" } | { kind: "left"; state: FoundState };

const ACTIONS = { settled: "settle", void: "void", dropped: "drop" } as const;

type Act = AuditEntry<"money">;

type OperatorContext = { journal: PaymentJournal; clock: Clock; log: Logger; by: string };

/**
 * Creates the function that records that an operator has seen the evidence against a payment, and writes an audit line.
 * Nothing else of the payment changes. Resolves with false if no evidence contradicts the payment, or it was acknowledged
 * before.
 */
export function createAcknowledge({ journal, clock, log, by }: OperatorContext) {
  return async (id: string, why: { selection: string; reason: string; run?: string }): Promise<boolean> => {
    const act: Act = { at: clock(), action: "acknowledge", callId: id, by, ...why };
    const isDone = await journal.acknowledge(id, { by, reason: why.reason }, act);
    if (isDone) logAudited(log, act);
    return isDone;
  };
}

/** The reason that the payer sees instead of the operator's own. */
const BY_OPERATOR = "decided by the operator";

/**
 * Creates the function that carries out an operator's verdict on a payment. `by` names the operator. For a payment in REVIEW,
 * `settled` queues the call unless its body was dropped, and `void` deletes the body. `dropped` deletes the body of a payment
 * that is SETTLING or in REVIEW. `acknowledged` changes no state. One script writes the change, the operator, the reason and
 * the audit line, so none is missing if this process dies.
 */
export function createResolve({
  count,
  ...acting
}: OperatorContext & {
  /** Counts the payment as revenue. */
  count?: CountOnce;
}) {
  const { journal, clock, log, by } = acting;
  const acknowledge = createAcknowledge(acting);

  return async function resolve(payment: Payment, verdict: Verdict, reason: string): Promise<Resolved> {
    const { kind } = verdict;
    if (kind === "acknowledged") {
      const isDone = await acknowledge(payment.id, { selection: "by id", reason });
      return isDone ? { kind: "done" } : { kind: "left", state: payment.state };
    }
    const decision = { by, reason };
    const act: Act = {
      at: clock(),
      action: ACTIONS[kind],
      callId: payment.id,
      by,
      selection: "by id",
      reason,
      ...(kind === "settled" && { transaction: verdict.transaction }),
    };
    const resolved = await (kind === "dropped"
      ? drop(payment, decision, act)
      : decide(payment, verdict, decision, act));
    if (resolved.kind === "done") logAudited(log, act);
    return resolved;
  };

  async function drop({ id }: Payment, decision: Decision, act: Act): Promise<Resolved> {
    failpoint("operator.before_dropped");
    const found = await journal.drop(id, decision, act);
    failpoint("operator.after_dropped");
    return found === DROPPED ? { kind: "done" } : { kind: "left", state: found };
  }

  async function decide(
    payment: Payment,
    verdict: Exclude<Verdict, { kind: "acknowledged" | "dropped" }>,
    decided: Decision,
    act: Act,
  ): Promise<Resolved> {
    if (verdict.kind === "void") {
      const ending = { reason: BY_OPERATOR, decided, act };
      const state = await journal.markVoid(payment, ending, { now: clock(), from: ["REVIEW"] });
      return state === "REVIEW" ? { kind: "done" } : { kind: "left", state };
    }
    const found = await enqueue(payment, verdict, decided, act);
    if (found !== "REVIEW" && found !== CALL_DROPPED) return { kind: "left", state: found };
    const { transaction } = verdict;
    await count?.("payment.settled", settledFields(payment, { transaction, by: "operator" }));
    return { kind: "done" };
  }

  async function enqueue(
    payment: Payment,
    { transaction, positions }: Extract<Verdict, { kind: "settled" }>,
    decided: Decision,
    act: Act,
  ): Promise<FoundState> {
    const places = positions.length === 0 ? [{}] : positions.map((position) => ({ position }));
    let found: FoundState = TRANSFER_TAKEN;
    for (const place of places) {
      const settlement = { ...toSettlement(payment, { transaction, by: "operator", ...place }), decided };
      const from = { from: ["REVIEW"], dueInMs: 0, act } as const;
      found = await journal.enqueueSettled(payment, { settlement, proven: false }, from);
      if (found !== TRANSFER_TAKEN) break;
    }
    return found;
  }
}
