import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine, plain } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type CloseOptions = OperationTarget & { json?: boolean };

/**
 * `postern endpoints close`: closes an endpoint that `postern endpoints open` has opened to receive the sender's
 * secret. Also works for an endpoint that is no longer configured. Exit code 1 if the endpoint is not open.
 */
export function closeEndpoint(deps: ProgramDeps, path: string, options: CloseOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const closed = await operations.closeEndpoint({ path });
    const lost = closed.secret_deleted ? "; a secret was received but not shown, and is deleted" : "";
    if (options.json) deps.print(jsonLine(closed));
    deps.say(`${plain(path)} is closed; it was opened by ${plain(closed.opened_by)}${lost}\n`);
    return EXIT.ok;
  });
}
