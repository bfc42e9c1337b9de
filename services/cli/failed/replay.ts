import type { ProgramDeps } from "../program-deps.ts";
import { type BulkOptions, runBulk } from "./bulk.ts";

export type ReplayOptions = BulkOptions & { force?: boolean; reason?: string };

/** `postern failed replay`: returns failed calls to the queue, with a new set of attempts and the same ids. */
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
