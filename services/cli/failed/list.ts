import type { FailedCallView } from "../../../shared/console/failed.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { problemDetail } from "../../../shared/platform/text/problem-detail.ts";
import { refuseUnknownPath } from "../endpoint/unknown-path.ts";
import { createListing } from "../listing.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, toSeconds } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";
import { type FilterOptions, toFilter } from "./filter.ts";

export type ListOptions = FilterOptions & Operated & { json?: boolean };

/** `postern failed list`: the newest failed calls first, then how many match. */
export function listFailed(deps: ProgramDeps, options: ListOptions): Promise<number> {
  const { limit, json } = options;
  const filter = toFilter(options);
  return withOperations(deps, options, async ({ failed: calls, configuredNames }) => {
    const listing = createListing<FailedCallView>(deps, json, {
      columns: [
        { heading: "CALL", width: 34 },
        { heading: "FAILED", width: 20 },
        { heading: "ORIGIN", width: 20, cutTo: 16 },
        { heading: "JOB", width: 5 },
        { heading: "ATTEMPTS" },
        { heading: "CODE", width: 16, tone: () => "bad" },
        { heading: "REASON", cutTo: 24 },
      ],
      toCells,
      toJson: (call) => call,
    });
    let shown = 0;
    for await (const call of calls.list(filter)) {
      listing.add(call);
      shown += 1;
      if (shown === limit) break;
    }
    if (shown === 0) {
      const refused = await refuseUnknownPath(deps, options.endpoint, { configuredNames });
      if (refused !== undefined) return refused;
    }
    const { matched, total } = await calls.count(filter);
    const matching = shown === limit ? matched : shown;
    listing.end(foundText({ shown, matching, total }));
    return EXIT.ok;
  });
}

type Found = { shown: number; matching: number; total: number };

function foundText({ shown, matching, total }: Found): string {
  const listed = shown < matching ? `; ${counted(shown, "is", "are")} listed (--limit 0 lists all)` : "";
  const all = counted(total, "failed call");
  return `${matching === total ? all : `${matching} of ${all} ${matching === 1 ? "matches" : "match"}`}${listed}`;
}

function toCells({ id, origin, path, service_id, job_id, ...call }: FailedCallView): string[] {
  const from = path === undefined ? origin : `${origin} ${path}`;
  const { failed_at: failedAt, attempts, code, reason } = call;
  return [
    ...[id, toSeconds(failedAt), from, `${service_id}/${job_id}`],
    ...[String(attempts), code, problemDetail(reason)],
  ];
}
