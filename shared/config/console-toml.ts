import { z } from "zod";
import { positive } from "./fields.ts";

const MIB = 1024 * 1024;

/** `[console]` of postern.toml: data that is stored for operators. No call needs it. */
export const consoleTable = z.strictObject({
  report: z.boolean().default(true),
  history_secs: z
    .int()
    .min(0)
    .max(30 * 86_400)
    .default(86_400),
  history_max: positive.default(500_000),
  history_bytes_max: positive.default(64 * MIB),
});

/** Limits of the history of injected calls (shared/call-search/history); undefined if no history is kept. */
export function toHistoryLimits({
  console: { history_secs, history_max, history_bytes_max },
}: {
  console: z.output<typeof consoleTable>;
}) {
  if (history_secs === 0) return undefined;
  return { keptMs: history_secs * 1000, calls: history_max, bytes: history_bytes_max };
}
