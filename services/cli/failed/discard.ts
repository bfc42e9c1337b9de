import type { ProgramDeps } from "../program-deps.ts";
import { isConfirmed } from "../terminal.ts";
import { type BulkOptions, runBulk } from "./bulk.ts";
import { paidLines } from "./paid-lines.ts";
import { selectedCount } from "./report.ts";

export type DiscardOptions = BulkOptions & { reason: string; yes?: boolean };

/** `postern failed discard`: ends failed calls for good, and deletes their bodies. */
export function discardFailed(deps: ProgramDeps, options: DiscardOptions): Promise<number> {
  const { reason, yes } = options;
  return runBulk(deps, options, {
    action: "discard",
    force: true,
    reason,
    flags: ["--reason", reason, ...(yes ? ["--yes"] : [])],
    isConfirmed: async (counted) => {
      if (yes) return true;
      const { paid } = counted;
      const chosen = selectedCount(counted);
      const [what, bodies, them] =
        chosen === 1
          ? ["1 failed call", "its body", "it"]
          : [`${chosen} failed calls`, "their bodies", "them"];
      const money = paidLines(paid, "before");
      const question =
        money.length === 0
          ? [`Discard ${what} and delete ${bodies}? This cannot be undone.`]
          : [
              `This discards ${what} and deletes ${bodies}, and cannot be undone.`,
              ...money,
              `Discard ${them}?`,
            ];
      return isConfirmed(deps.terminal, question.join("\n"));
    },
  });
}
