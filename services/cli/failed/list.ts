import { WEBHOOK_PATH } from "../../../shared/job-call/metadata.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createFailedCalls, type FailedCall, type FailedCalls } from "../../../shared/queue/failed-calls.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { plain, toIso } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { type FilterOptions, toFilter } from "./filter.ts";

export type ListOptions = FilterOptions & { configDir: string; json?: boolean };

/** `postern failed list`: the newest failed calls first, and how many there are. */
export function listFailed(deps: ProgramDeps, options: ListOptions): Promise<number> {
  return withRedis(deps, options, async ({ redis }) => {
    const calls = createFailedCalls(redis);
    const shown = await printCalls(deps, options, calls);
    const matching = shown === options.limit ? await calls.count(toFilter(options)) : shown;
    const listed = shown < matching ? `, of which ${shown} are listed (--limit 0 lists all)` : "";
    const count = `${matching} of ${await calls.count({})} failed calls match${listed}\n`;
    if (options.json) deps.printError(count);
    else deps.print(count);
    return EXIT.ok;
  });
}

async function printCalls(deps: ProgramDeps, options: ListOptions, calls: FailedCalls): Promise<number> {
  const { print, terminal } = deps;
  const toLine = (call: FailedCall) =>
    options.json ? `${JSON.stringify(toJson(call))}\n` : toRow(call, terminal.columns);
  if (!options.json) print(cut(HEADINGS, terminal.columns));
  let shown = 0;
  for await (const call of calls.matching(toFilter(options), { newestFirst: true })) {
    print(toLine(call));
    shown += 1;
    if (shown === options.limit) break;
  }
  return shown;
}

const WIDTHS = [34, 20, 20, 3, 5, 16];
/** What a narrow screen wraps rather than lose: all columns and the beginning of the reason. */
const ROW_MIN = 130;
const HEADINGS = cells(["CALL", "FAILED", "FROM", "JOB", "TRIES", "CODE", "REASON"]);

function toRow(call: FailedCall, columns: number | undefined): string {
  const from = [call.origin, call.call?.metadata[WEBHOOK_PATH]]
    .filter((part) => part !== undefined)
    .join(" ");
  const { id, failedAt, attempts, code, reason } = call;
  const job = call.call?.job_id ?? "?";
  return cut(
    cells([id, toSeconds(failedAt), from, String(job), String(attempts), code, reason].map(plain)),
    columns,
  );
}

function cells(texts: readonly string[]): string {
  return texts.map((text, i) => text.padEnd(WIDTHS[i] ?? 0)).join("  ");
}

/** On a screen the reason is cut where the line ends; elsewhere nothing is. */
function cut(row: string, columns: number | undefined): string {
  const max = Math.max(columns ?? Number.POSITIVE_INFINITY, ROW_MIN);
  return row.length <= max ? `${row}\n` : `${row.slice(0, max - 1)}…\n`;
}

function toSeconds(at: number): string {
  return toIso(at).replace(/\.\d+Z$/, "Z");
}

/** A failed call for scripts, without its body. */
export function toJson({ id, origin, failedAt, acceptedAt, attempts, code, reason, call }: FailedCall) {
  return {
    id,
    origin,
    path: call?.metadata[WEBHOOK_PATH],
    job_id: call?.job_id,
    failed_at: toIso(failedAt),
    accepted_at: toIso(acceptedAt),
    attempts,
    code,
    reason,
    content_type: call?.content_type,
    bytes: call?.bytes,
    sha256: call?.sha256,
    traceparent: call?.traceparent,
  };
}
