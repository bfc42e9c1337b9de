import { randomUUID } from "node:crypto";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { callIdOf } from "../call-ids.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type ReplayOptions = OperationTarget & { reason: string; json?: boolean };

/**
 * `postern calls replay`: runs a delivered webhook again, as a new call with another id. Exit code 1 if Postern has not
 * kept its body, or if the call is a paid one.
 */
export function replayCall(
  deps: ProgramDeps,
  named: string,
  { reason, ...options }: ReplayOptions,
): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const id = await callIdOf(operations, named);
    const asked = { call_id: id, reason, request_id: randomUUID() };
    const replayed = await operations.replayDelivered(asked);
    if (options.json) deps.print(jsonLine(replayed));
    deps.say(`${id} is queued again as ${replayed.call_id}\n`);
    return EXIT.ok;
  });
}
