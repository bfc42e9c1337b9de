import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import type { Decide } from "../../../shared/operator/payments.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";

export type ResolveOptions = Operated & {
  settled?: boolean;
  void?: boolean;
  acknowledged?: boolean;
  transaction?: string;
  reason: string;
  json?: boolean;
};

/** `postern payments resolve`: an operator decides on a payment in REVIEW, or acknowledges a disputed one. 1 if it is neither. */
export function resolvePayment(deps: ProgramDeps, id: string, options: ResolveOptions): Promise<number> {
  const { transaction, json } = options;
  const decision = decisionOf(options);
  const { verdict } = decision;
  return withOperations(deps, options, async (operations) => {
    await operations.payments.resolve(id, decision);
    if (json) deps.print(jsonLine({ call_id: id, verdict, transaction: transaction ?? null }));
    deps.say(`${id} is ${DONE[verdict]}\n`);
    return EXIT.ok;
  });
}

function decisionOf({ acknowledged, transaction, reason }: ResolveOptions): Decide {
  if (acknowledged) return { verdict: "acknowledged", reason };
  return transaction === undefined
    ? { verdict: "void", reason }
    : { verdict: "settled", transaction, reason };
}

const DONE = {
  void: "void, by your word",
  settled: "settled; its call is in the queue",
  acknowledged: "acknowledged: it stays as it is, and is listed as disputed no more",
};
