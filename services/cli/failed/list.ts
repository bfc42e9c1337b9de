import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createFailedCalls, type FailedCall } from "../../../shared/queue/failed.ts";
import { jobIdsOf, jobOf } from "../../../shared/queue/queue-name.ts";
import { createListing } from "../listing.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { toIso, toIsoSeconds } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { type FilterOptions, toFilter } from "./filter.ts";

export type ListOptions = FilterOptions & { configDir: string; json?: boolean };

/** `postern failed list`: the newest failed calls first, then how many match. */
export function listFailed(deps: ProgramDeps, options: ListOptions): Promise<number> {
  const { limit, json } = options;
  const filter = toFilter(options);
  return withRedis(deps, options, async ({ partition }) => {
    const calls = createFailedCalls(partition);
    const listing = createListing(deps, json, {
      headings: ["CALL", "FAILED AT", "FROM", "JOB", "TRIES", "CODE", "REASON"],
      widths: [34, 20, 20, 5, 5, 16],
      toCells,
      trim: (row) => cut(row, deps.terminal.columns),
      toJson,
    });
    let shown = 0;
    for await (const call of calls.matching(filter, { newestFirst: true })) {
      listing.add(call);
      shown += 1;
      if (shown === limit) break;
    }
    const matching = shown === limit ? await calls.count(filter) : shown;
    const listed = shown < matching ? `; ${shown} are listed (--limit 0 lists all)` : "";
    listing.end(`${matching} of ${await calls.count({})} failed calls match${listed}`);
    return EXIT.ok;
  });
}

function toCells({ id, queue, origin, failedAt, attempts, code, reason, head }: FailedCall): string[] {
  const from = head.path === undefined ? origin : `${origin} ${head.path}`;
  return [id, toIsoSeconds(failedAt), from, jobOf(queue), String(attempts), code, reason];
}

/** All columns and the beginning of the reason. A screen narrower than this wraps its rows. */
const ROW_MIN = 130;

/** Cuts the reason at the edge of the screen. Output that does not go to a screen is left whole. */
function cut(row: string, columns: number | undefined): string {
  const max = Math.max(columns ?? Number.POSITIVE_INFINITY, ROW_MIN);
  return row.length <= max ? row : `${row.slice(0, max - 1)}…`;
}

/** A failed call for scripts, without its body. */
export function toJson({
  id,
  queue,
  origin,
  failedAt,
  acceptedAt,
  attempts,
  code,
  reason,
  head,
}: FailedCall) {
  const { serviceId, jobIndex } = jobIdsOf(queue);
  return {
    id,
    origin,
    path: head.path,
    service_id: serviceId,
    job_id: jobIndex,
    failed_at: toIso(failedAt),
    accepted_at: toIso(acceptedAt),
    attempts,
    code,
    reason,
    content_type: head.content_type,
    bytes: head.bytes,
    sha256: head.sha256,
    traceparent: head.traceparent,
  };
}
