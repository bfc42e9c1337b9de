import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { callIdOf } from "../call-ids.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";

export type RunNowOptions = Operated & { json?: boolean };

/** `postern calls run-now`: a delayed call is taken before its time. 1 if it is not delayed. */
export function runCallNow(deps: ProgramDeps, named: string, options: RunNowOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const id = await callIdOf(operations, named);
    await operations.runCallNow({ call_id: id, reason: "postern calls run-now" });
    if (options.json) deps.print(jsonLine({ call_id: id }));
    deps.say(`${id} can run now\n`);
    return EXIT.ok;
  });
}
