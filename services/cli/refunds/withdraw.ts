import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { callIdOf } from "../call-ids.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type WithdrawOptions = OperationTarget & { reason: string; json?: boolean };

/**
 * `postern refunds withdraw`: cancels a refund because the runner accepted the call after the refund was exported. The
 * call's state becomes injected, and its refund is no longer pending. Exit code 1 if the runner did not accept the call
 * after an export.
 */
export function withdrawRefund(deps: ProgramDeps, named: string, options: WithdrawOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const id = await callIdOf(operations, named);
    const payment = await operations.withdrawRefund({ call_id: id, reason: options.reason });
    if (options.json) deps.print(jsonLine(payment));
    deps.say(`${id} is injected; its refund is withdrawn\n`);
    return EXIT.ok;
  });
}
