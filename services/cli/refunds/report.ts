import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type ReportOptions = OperationTarget;

/** `postern refunds report`: prints a table of all refunds, for bookkeeping. */
export function reportRefunds(deps: ProgramDeps, options: ReportOptions): Promise<number> {
  return withOperations(deps, options, async ({ getRefundReport }) => {
    for await (const piece of (await getRefundReport()).pieces) deps.print(Buffer.from(piece).toString());
    return EXIT.ok;
  });
}
