import type { Audit } from "../queue/audit.ts";
import type { Clock } from "../time/clock.ts";
import type { PaymentJournal } from "./journal.ts";
import type { Payment, PaymentState } from "./payment.ts";
import { toSettlement } from "./terms.ts";

/** What an operator says became of a payment in REVIEW. */
export type Verdict = { kind: "settled"; transaction: string } | { kind: "void" };

export type Resolved = { kind: "done" } | { kind: "left"; state: PaymentState | undefined };

type Deps = { journal: PaymentJournal; audit: Audit; clock: Clock; by: string };

/**
 * Ends a REVIEW by hand. A payment that is settled becomes due at once, and a gateway queues its call; one that is void
 * loses its body. Any other state is left alone, also one that came between.
 */
export function createResolve({ journal, audit, clock, by }: Deps) {
  return async function resolve(payment: Payment, verdict: Verdict, reason: string): Promise<Resolved> {
    const found = await (verdict.kind === "settled"
      ? settle(payment, verdict.transaction)
      : journal.void(payment, { reason }, { now: clock(), from: ["REVIEW"] }));
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

  function settle(payment: Payment, transaction: string): Promise<PaymentState | undefined> {
    const settlement = toSettlement(payment, { transaction, by: "operator" });
    return journal.settled(payment, { settlement, proven: false }, { now: clock(), from: ["REVIEW"] });
  }
}
