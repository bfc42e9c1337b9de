import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { callIdOf } from "../call-ids.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { mayChange } from "../terminal.ts";
import { jsonLine } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type ForgetOptions = OperationTarget & { reason: string; yes?: boolean; json?: boolean };

/**
 * `postern calls forget`: deletes all stored data of a call that came from its sender, such as the body. Exit code 1 if
 * nothing is deleted: the operator did not confirm, or the call has not ended yet.
 */
export function forgetCall(deps: ProgramDeps, named: string, options: ForgetOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const id = await callIdOf(operations, named);
    if (!(await mayChange(deps, options, questionOf(id)))) return EXIT.failed;
    const forgotten = await operations.forgetCall({ call_id: id, reason: options.reason });
    const { forgotten_before: before } = forgotten;
    if (options.json) deps.print(jsonLine(forgotten));
    deps.say(before === null ? `${id} is forgotten\n` : `${id} was already forgotten at ${before}\n`);
    return EXIT.ok;
  });
}

function questionOf(id: string): string {
  return `Delete the body, metadata, result and attempts of ${id}? This cannot be undone.`;
}
