import type { Audit } from "../queue/audit.ts";
import type { Clock } from "../time/clock.ts";
import type { PaymentJournal } from "./journal.ts";
import type { Decision, Payment, PaymentState } from "./payment.ts";
import { toSettlement } from "./payment.ts";

/** What an operator says became of a payment in REVIEW. */
export type Verdict = { kind: "settled"; transaction: string } | { kind: "void" };

type Resolved = { kind: "done" } | { kind: "left"; state: PaymentState | undefined };

type Deps = { journal: PaymentJournal; audit: Audit; clock: Clock; by: string };

/** All that a payer is told of why. */
const BY_OPERATOR = "by the operator's decision";

/**
 * Ends a REVIEW by hand. A payment that is settled becomes due at once, and a gateway queues its call; one that is void
 * loses its body. Who decided so, and why, is written with the change itself, and into the audit after it. Any other state
 * is left alone, also one that came between.
 */
export function createResolve({ journal, audit, clock, by }: Deps) {
  return async function resolve(payment: Payment, verdict: Verdict, reason: string): Promise<Resolved> {
    const found = await decide(payment, verdict, { by, reason });
    if (found !== "REVIEW") return { kind: "left", state: found };
    await audit({
      at: clock(),
      action: verdict.kind === "settled" ? "settle" : "void",
      callId: payment.id,
      by,
      selection: "by id",
      reason,
      ...(verdict.kind === "settled" && { transaction: verdict.transaction }),
    });
    return { kind: "done" };
  };

  /** Answers the state found. */
  function decide(payment: Payment, verdict: Verdict, decided: Decision): Promise<PaymentState | undefined> {
    const move = { now: clock(), from: ["REVIEW"] } as const;
    if (verdict.kind === "void") {
      const why = { reason: BY_OPERATOR, decided };
      return journal.void(payment, why, move);
    }
    const { transaction } = verdict;
    const settlement = { ...toSettlement(payment, { transaction, by: "operator" }), decided };
    return journal.settled(payment, { settlement, proven: false }, move);
  }
}
