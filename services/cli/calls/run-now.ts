import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { callIdOf } from "../call-ids.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type RunNowOptions = OperationTarget & { json?: boolean };

/**
 * `postern calls run-now`: makes a delayed call wait in the queue at once, so that a producer attempts it before its
 * time. Exit code 1 if the call is not delayed.
 */
export function runCallNow(deps: ProgramDeps, named: string, options: RunNowOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const id = await callIdOf(operations, named);
    await operations.runCallNow({ call_id: id, reason: "postern calls run-now" });
    if (options.json) deps.print(jsonLine({ call_id: id }));
    deps.say(`${id} can run now\n`);
    return EXIT.ok;
  });
}
