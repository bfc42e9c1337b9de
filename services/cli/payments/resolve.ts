import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createPaymentJournal } from "../../../shared/payments/journal.ts";
import { createResolve, type Verdict } from "../../../shared/payments/resolve.ts";
import { createAudit } from "../../../shared/queue/audit.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import { operatorName } from "../failed/operator.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { withRedis } from "../with-redis.ts";
import { unknown } from "./show.ts";

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
      const state = resolved.state?.toLowerCase() ?? "gone";
      return refuse(deps, `${id} is ${state}: only a payment in review can be resolved; nothing was changed`);
    }
    deps.print(`${id} is ${verdict.kind === "void" ? VOIDED : SETTLED}\n`);
    return EXIT.ok;
  });
}

const VOIDED = "void, by your word";
const SETTLED = "settled, by your word; a running gateway queues its call";

function refuse({ printError }: ProgramDeps, message: string): number {
  printError(`${message}\n`);
  return EXIT.failed;
}
