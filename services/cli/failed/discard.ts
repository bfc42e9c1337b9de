import type { ProgramDeps } from "../program-deps.ts";
import { type BulkOptions, runBulk } from "./bulk.ts";

export type DiscardOptions = BulkOptions & { reason: string; yes?: boolean };

/** `postern failed discard`: ends failed calls for good; their bodies are deleted. */
export function discardFailed(deps: ProgramDeps, options: DiscardOptions): Promise<number> {
  const { reason, yes } = options;
  return runBulk(deps, options, {
    action: "discard",
    force: true,
    reason,
    flags: ["--reason", reason, ...(yes ? ["--yes"] : [])],
    isConfirmed: async (count) => {
      if (yes) return true;
      const what = count === 1 ? "1 failed call and its body" : `${count} failed calls and their bodies`;
      return /^y(es)?$/i.test(await deps.terminal.ask(`Discard ${what} for good? [y/N] `));
    },
  });
}
