import { createAudit } from "../../../shared/audit/audit.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createPaymentJournal } from "../../../shared/payments/journal.ts";
import { createResolve, type Verdict } from "../../../shared/payments/resolve.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { operatorName } from "../terminal.ts";
import { withRedis } from "../with-redis.ts";
import { decisionText, unknown } from "./show.ts";

export type ResolveOptions = {
  configDir: string;
  settled?: boolean;
  void?: boolean;
  transaction?: string;
  reason: string;
};

/** `postern payments resolve`: an operator decides on a payment in REVIEW. 1 if it is in any other state. */
export function resolvePayment(deps: ProgramDeps, id: string, options: ResolveOptions): Promise<number> {
  const { transaction, reason } = options;
  const verdict: Verdict = transaction === undefined ? { kind: "void" } : { kind: "settled", transaction };
  return withRedis(deps, options, async ({ partition, log }) => {
    const journal = createPaymentJournal(partition);
    const payment = await journal.look(id);
    if (payment === undefined) throw new Error(unknown(id));
    const audit = createAudit(partition, log);
    const resolve = createResolve({ journal, audit, clock: systemClock, by: operatorName() });
    const resolved = await resolve(payment, verdict, reason);
    await log.flush();
    if (resolved.kind === "left") {
      const state = resolved.state?.toLowerCase() ?? "gone";
      const left = `${id} is ${state}: only a payment in review can be resolved; nothing was changed`;
      // An earlier run may have died between its decision and its line in the audit.
      const { decided } = payment;
      throw new Error(decided === undefined ? left : `${left}. It was decided ${decisionText(decided)}`);
    }
    deps.print(`${id} is ${verdict.kind === "void" ? VOIDED : SETTLED}\n`);
    return EXIT.ok;
  });
}

const VOIDED = "void, by your word";
const SETTLED = "settled, by your word; its call is in the queue";
