import { createAudit } from "../../../shared/audit/audit.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { unknownPayment } from "../../../shared/operator/payments.ts";
import { createPaymentJournal } from "../../../shared/payments/journal.ts";
import { createRefunds } from "../../../shared/payments/refunds.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { operatorName } from "../terminal.ts";
import { jsonLine } from "../text.ts";
import { withRedis } from "../with-redis.ts";

export type RefundWithdrawOptions = { configDir: string; reason: string; json?: boolean };

/** `postern payments refund-withdraw`: a call that the runner took after its export is injected, and its case is none. 1 for any other. */
export function withdrawRefund(
  deps: ProgramDeps,
  id: string,
  options: RefundWithdrawOptions,
): Promise<number> {
  return withRedis(deps, options, async ({ partition, log }) => {
    const payment = await createPaymentJournal(partition).look(id);
    if (payment === undefined) throw unknownPayment(id);
    const [at, by] = [systemClock(), operatorName()];
    if (!(await createRefunds(partition).withdraw(payment, at))) {
      const which = "only a pending refund whose call the runner has taken since can be withdrawn";
      throw new Error(`${id} is ${payment.state.toLowerCase()}: ${which}; nothing was changed`);
    }
    const audit = createAudit(partition, log);
    await audit({ at, action: "withdraw", callId: id, by, selection: "by id", reason: options.reason });
    if (options.json) deps.print(jsonLine({ call_id: id, state: "injected" }));
    deps.say(`${id} is injected; its refund is withdrawn\n`);
    return EXIT.ok;
  });
}
