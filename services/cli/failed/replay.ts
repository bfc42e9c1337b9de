import type { ProgramDeps } from "../program-deps.ts";
import { type BulkOptions, runBulk } from "./bulk.ts";

export type ReplayOptions = BulkOptions & { force?: boolean; reason?: string };

/**
 * `postern failed replay`: puts failed calls into the queue again. They keep their ids, and their attempts are counted
 * from 1 again.
 */
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
