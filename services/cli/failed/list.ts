import type { Operations } from "../../../shared/console/contract/contract.ts";
import { FailedCallView, type FailedFilter } from "../../../shared/console/failed.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { problemDetail } from "../../../shared/platform/text/problem-detail.ts";
import { callIdsOf } from "../call-ids.ts";
import { refuseUnknownPath } from "../endpoints/unknown-path.ts";
import { createListing } from "../listing.ts";
import { pagesOf } from "../pagination.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { age, counted, toSeconds } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";
import { type FilterOptions, toFilter } from "./filter.ts";

export type ListOptions = FilterOptions & OperationTarget & { json?: boolean };

const PAGE_MAX = 500;

/** `postern failed list`: prints the failed calls, newest first, and then the number of matching calls. */
export function listFailed(deps: ProgramDeps, options: ListOptions): Promise<number> {
  const { limit } = options;
  const { ids, ...filter } = toFilter(options);
  return withOperations(deps, options, async (operations) => {
    const listing = createListing<FailedCallView>(deps, {
      columns: [
        { heading: "CALL" },
        { heading: "FAILED" },
        { heading: "AGE", alignRight: true },
        { heading: "ORIGIN", cutTo: 16 },
        { heading: "JOB" },
        { heading: "ATTEMPTS" },
        { heading: "CODE", tone: () => "bad" },
        { heading: "REASON", cutTo: 24 },
        { heading: "BYTES", isWide: true },
        { heading: "CREATED", isWide: true },
        { heading: "TRACEPARENT", isWide: true },
      ],
      toCells,
      toJson: (call) => call,
      toName: ({ id }) => id,
    });
    const read = (cursor?: string) => operations.listFailed({ ...filter, limit: PAGE_MAX, cursor });
    const named = ids && (await readNamed(operations, await callIdsOf(operations, ids), filter));
    let shown = 0;
    for await (const call of named ?? pagesOf(read, ({ calls }) => calls)) {
      listing.add(call);
      shown += 1;
      if (shown === limit) break;
    }
    if (shown === 0) {
      const refused = await refuseUnknownPath(deps, options.endpoint, operations);
      if (refused !== undefined) return refused;
    }
    const { matched, total } = await operations.countFailed(named === undefined ? filter : {});
    listing.end(foundText({ shown, matching: named?.length ?? matched, total }));
    return EXIT.ok;
  });
}

/** Returns those of the named calls that have failed and match the filter, newest first. */
async function readNamed(
  { getFailed }: Operations,
  ids: readonly string[],
  filter: FailedFilter,
): Promise<FailedCallView[]> {
  const found: FailedCallView[] = [];
  for (const id of ids) {
    const call = await getFailed({ call_id: id }).catch((error: unknown) => {
      if (error instanceof AppError && error.code.startsWith("call.")) return undefined;
      throw error;
    });
    if (call !== undefined && matches(call, filter)) found.push(FailedCallView.parse(call));
  }
  return found.sort((a, b) => Date.parse(b.failed_at) - Date.parse(a.failed_at));
}

function matches(call: FailedCallView, { endpoint, text, since, until, ...same }: FailedFilter): boolean {
  const failedAt = Date.parse(call.failed_at);
  const texts = [call.id, call.reason, call.endpoint];
  return (
    (text === undefined || texts.some((each) => each?.toLowerCase().includes(text.toLowerCase()))) &&
    (endpoint === undefined || call.endpoint === endpoint) &&
    (since === undefined || failedAt >= Date.parse(since)) &&
    (until === undefined || failedAt <= Date.parse(until)) &&
    (["origin", "service_id", "job_id", "code"] as const).every(
      (name) => same[name] === undefined || same[name] === call[name],
    )
  );
}

type Found = { shown: number; matching: number; total: number };

function foundText({ shown, matching, total }: Found): string {
  const listed = shown < matching ? `; ${counted(shown, "is", "are")} listed (--limit 0 lists all)` : "";
  const all = counted(total, "failed call");
  return `${matching === total ? all : `${matching} of ${all} ${matching === 1 ? "matches" : "match"}`}${listed}`;
}

function toCells({ id, origin, endpoint, service_id, job_id, ...call }: FailedCallView): string[] {
  const from = endpoint === undefined ? origin : `${origin} ${endpoint}`;
  const { failed_at: failedAt, attempts, code, reason } = call;
  return [
    ...[id, toSeconds(failedAt), age(failedAt), from, `${service_id}/${job_id}`],
    ...[String(attempts), code, problemDetail(reason)],
    ...[call.bytes?.toString() ?? "-", call.accepted_at ?? "-", call.traceparent ?? "-"],
  ];
}
