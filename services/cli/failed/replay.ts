import { createReplay } from "../../../shared/queue/replay.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { type BulkOptions, runBulk } from "./bulk.ts";

export type ReplayOptions = BulkOptions & { force?: boolean };

/** `postern failed replay`: puts failed calls back into the queue, with all their attempts, under the same keys. */
export function replayFailed(deps: ProgramDeps, options: ReplayOptions): Promise<number> {
  return runBulk(deps, options, {
    verb: "replay",
    create: createReplay,
    flags: options.force ? ["--force"] : [],
    needsForce: ({ acceptedAt }, { runner }, now) =>
      !options.force && now - acceptedAt > runner.memory_secs * 1000,
    isConfirmed: async () => true,
  });
}
