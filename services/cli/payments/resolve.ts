import type { Decision } from "../../../shared/console/payments.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { callIdOf } from "../call-ids.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type ResolveOptions = OperationTarget & {
  settled?: boolean;
  void?: boolean;
  acknowledged?: boolean;
  dropped?: boolean;
  transaction?: string;
  reason: string;
  json?: boolean;
};

/**
 * `postern payments resolve`: records an operator's decision on one payment. It decides whether a payment in review was
 * made, acknowledges a disputed payment, or gives up a payment whose outcome stays unknown. Exit code 1 if the payment
 * is not in a state for this decision.
 */
export function resolvePayment(deps: ProgramDeps, named: string, options: ResolveOptions): Promise<number> {
  const decision = decisionOf(options);
  const { verdict } = decision;
  return withOperations(deps, options, async (operations) => {
    const id = await callIdOf(operations, named);
    const payment = await operations.resolvePayment({ call_id: id, ...decision });
    if (options.json) deps.print(jsonLine(payment));
    deps.say(`${id} is ${DONE[verdict]}\n`);
    return EXIT.ok;
  });
}

function decisionOf({ acknowledged, dropped, transaction, reason }: ResolveOptions): Decision {
  if (dropped) return { verdict: "dropped", reason };
  if (acknowledged) return { verdict: "acknowledged", reason };
  return transaction === undefined
    ? { verdict: "void", reason }
    : { verdict: "settled", transaction, reason };
}

const DONE = {
  void: "void: you marked it as not paid",
  settled: "settled; its call is queued",
  dropped:
    "dropped: the body of its call is deleted, and no further settle request is sent; if the money still arrives, a refund is due",
  acknowledged: "acknowledged: it is no longer listed as disputed, and nothing else changes",
};
