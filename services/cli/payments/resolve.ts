import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createPaymentJournal } from "../../../shared/payments/journal.ts";
import type { Payment, PaymentState } from "../../../shared/payments/payment.ts";
import { createResolve, type Verdict } from "../../../shared/payments/resolve.ts";
import { createAudit } from "../../../shared/queue/audit.ts";
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

/** `postern payments resolve`: an operator's word on a payment in REVIEW. 1 for one in any other state. */
export function resolvePayment(deps: ProgramDeps, id: string, options: ResolveOptions): Promise<number> {
  const verdict: Verdict =
    options.transaction === undefined
      ? { kind: "void" }
      : { kind: "settled", transaction: options.transaction };
  return withRedis(deps, options, async ({ redis, log }) => {
    const journal = createPaymentJournal(redis);
    const payment = await journal.find(id);
    if (payment === undefined) return refuse(deps, unknown(id));
    const audit = createAudit(redis, log);
    const resolve = createResolve({ journal, audit, clock: systemClock, by: operatorName() });
    const resolved = await resolve(payment, verdict, options.reason);
    log.flush();
    if (resolved.kind === "left") {
      return refuse(deps, leftText(payment, resolved.state));
    }
    deps.print(`${id} is ${verdict.kind === "void" ? VOIDED : SETTLED}\n`);
    return EXIT.ok;
  });
}

const VOIDED = "void, by your word";
const SETTLED = "settled, by your word; a running gateway queues its call";

/** A run before this one may have ended after the decision and before its line in the audit. */
function leftText({ id, decided }: Payment, state: PaymentState | undefined): string {
  const left = `${id} is ${state?.toLowerCase() ?? "gone"}: only a payment in review can be resolved; nothing was changed`;
  return decided === undefined ? left : `${left}. It was decided ${decisionText(decided)}`;
}

function refuse({ printError }: ProgramDeps, message: string): number {
  printError(`${message}\n`);
  return EXIT.failed;
}
