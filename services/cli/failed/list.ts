import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createFailedCalls, type FailedCall } from "../../../shared/queue/failed.ts";
import { jobIdsOf, jobOf } from "../../../shared/queue/queue-name.ts";
import { problemDetail } from "../../../shared/text/problem-detail.ts";
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
      columns: [
        { heading: "CALL", width: 34 },
        { heading: "FAILED AT", width: 20 },
        { heading: "FROM", width: 20, cutTo: 16 },
        { heading: "JOB", width: 5 },
        { heading: "TRIES", width: 5 },
        { heading: "CODE", width: 16, tone: () => "bad" },
        { heading: "REASON", cutTo: 24 },
      ],
      toCells,
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
  return [id, toIsoSeconds(failedAt), from, jobOf(queue), String(attempts), code, problemDetail(reason)];
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
