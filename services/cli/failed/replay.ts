import type { ProgramDeps } from "../program-deps.ts";
import { type BulkOptions, runBulk } from "./bulk.ts";

export type ReplayOptions = BulkOptions & { force?: boolean; reason?: string };

/** `postern failed replay`: puts failed calls back into the queue, with a new set of attempts, under the same keys. */
export function replayFailed(deps: ProgramDeps, options: ReplayOptions): Promise<number> {
  const { force = false, reason } = options;
  return runBulk(deps, options, {
    action: "replay",
    force,
    reason,
    flags: [...(force ? ["--force"] : []), ...(reason === undefined ? [] : ["--reason", reason])],
    isConfirmed: async () => true,
  });
}
