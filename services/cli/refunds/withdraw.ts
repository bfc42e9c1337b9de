import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { callIdOf } from "../call-ids.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";

export type WithdrawOptions = Operated & { reason: string; json?: boolean };

/** `postern refunds withdraw`: a call that the runner took after its export is injected, and its case is none. 1 for any other. */
export function withdrawRefund(deps: ProgramDeps, named: string, options: WithdrawOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const id = await callIdOf(operations, named);
    const payment = await operations.withdrawRefund({ call_id: id, reason: options.reason });
    if (options.json) deps.print(jsonLine(payment));
    deps.say(`${id} is injected; its refund is withdrawn\n`);
    return EXIT.ok;
  });
}
