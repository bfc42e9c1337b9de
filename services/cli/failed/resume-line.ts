import type { BulkOptions } from "./bulk-options.ts";
import type { BulkReport } from "./bulk-report.ts";
import { selectionWords, shellLine } from "./filter-options.ts";

/** The command that does what a bulk run left; undefined when it left nothing. `flags` are the subcommand's own. */
export function resumeLine(
  options: BulkOptions,
  flags: readonly string[],
  { verb, result, interrupted }: Omit<BulkReport, "resume">,
): string | undefined {
  if (!interrupted && (result?.remaining.length ?? 0) === 0) return undefined;
  const { all, limit, json, concurrency, configDir } = options;
  const ended = result === undefined ? 0 : result.done + result.left;
  return shellLine([
    ...["postern", "failed", verb],
    ...(all ? ["--all"] : []),
    ...selectionWords(result === undefined ? options : withoutDone(options, result.remaining)),
    ...(limit === 0 ? [] : ["--limit", String(limit - ended)]),
    ...flags,
    ...(json ? ["--json"] : []),
    ...["--concurrency", String(concurrency), "--config-dir", configDir],
  ]);
}

/** Named calls that are done would only be complained of; those that a filter chose are not failed any more. */
function withoutDone(options: BulkOptions, remaining: readonly { id: string }[]): BulkOptions {
  return options.id === undefined ? options : { ...options, id: remaining.map(({ id }) => id) };
}
