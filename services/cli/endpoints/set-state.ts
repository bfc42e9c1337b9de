import type { EndpointChange } from "../../../shared/console/endpoint-states.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { isEverywhere, partitionsText } from "../jobs/each-job.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, jsonLine, NO_REASON, plain } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type SetStateOptions = OperationTarget & { reason?: string; json?: boolean };

/**
 * `postern endpoints disable`, `hold` and `enable`. Exit code 1 if the endpoint is already in the requested state, or
 * if a partition cannot be reached.
 */
export function setEndpointState(
  deps: ProgramDeps,
  { path, state }: Pick<EndpointChange, "path" | "state">,
  options: SetStateOptions,
): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const reason = options.reason ?? NO_REASON;
    const change = await operations.setEndpointState({ path, state, reason });
    if (options.json) deps.print(jsonLine(change));
    const places = partitionsText(change, "updated when a producer or a gateway can use it");
    if (!change.changed) {
      deps.printError(`${plain(path)} is already ${state}${places}\n`);
      return EXIT.failed;
    }
    const line = `${plain(path)}: ${state} at all gateways within 2 seconds${places}${inWords(change)}\n`;
    if (isEverywhere(change)) deps.say(line);
    else deps.printError(line);
    return isEverywhere(change) ? EXIT.ok : EXIT.failed;
  });
}

/** Says how the new state affects the endpoint's calls. */
function inWords({ state, held }: EndpointChange): string {
  switch (state) {
    case "disabled":
      return held === 0 ? "" : `; it holds ${counted(held, "call")} until it is enabled`;
    case "held":
      return "; new calls then wait until it is enabled. Calls accepted before go on: pause the job to stop them too";
    case "enabled":
      return held === 0 ? "" : `; ${counted(held, "held call")} released`;
  }
}
