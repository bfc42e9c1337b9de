import type { CallSearch, FoundCall, PageCursor } from "../../../shared/calls/found-call.ts";
import { createSearchCalls } from "../../../shared/calls/search.ts";
import { idsOfKey } from "../../../shared/job-call/job-ids.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { problemDetail } from "../../../shared/text/problem-detail.ts";
import { toIso } from "../../../shared/time/iso.ts";
import { createListing } from "../listing.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { toIsoSeconds } from "../text.ts";
import { withRedis } from "../with-redis.ts";

export type FindOptions = CallSearch & { configDir: string; limit: number; json?: boolean };

const PAGE_MAX = 500;

/** `postern calls find`: the calls that match, wherever they are, the newest first. */
export function findCalls(deps: ProgramDeps, options: FindOptions): Promise<number> {
  const { limit, json, configDir: _, ...search } = options;
  return withRedis(deps, options, async ({ partition }) => {
    const find = createSearchCalls(partition, { patienceMs: 60_000 });
    const listing = createListing(deps, json, {
      columns: [
        { heading: "CALL", width: 34 },
        { heading: "SINCE", width: 20 },
        { heading: "STATE", width: 8, tone: (state) => (state === "failed" ? "bad" : undefined) },
        { heading: "FROM", width: 20, cutTo: 16 },
        { heading: "JOB", width: 5 },
        { heading: "KNOWN BY", cutTo: 24 },
      ],
      toCells,
      toJson,
    });
    let shown = 0;
    let after: PageCursor | undefined;
    let isComplete = true;
    do {
      const wanted = limit === 0 ? PAGE_MAX : Math.min(PAGE_MAX, limit - shown);
      const page = await find(search, { limit: wanted, after });
      for (const call of page.calls) listing.add(call);
      shown += page.calls.length;
      after = page.next;
      isComplete &&= page.isComplete;
    } while (after !== undefined && shown !== limit);
    const more = after === undefined ? "" : "; there are more (--limit 0 lists all)";
    const cut = isComplete ? "" : "; not all could be looked at: say more of what is looked for";
    listing.end(`${shown} ${shown === 1 ? "call" : "calls"} found${more}${cut}`);
    return EXIT.ok;
  });
}

function toCells({ id, at, state, origin = "-", endpoint, job = "-", ...known }: FoundCall): string[] {
  const from = endpoint === undefined ? origin : `${origin} ${endpoint}`;
  return [id, toIsoSeconds(at), state, from, job, knownBy(known)];
}

/** Why it failed, or else what its sender or payer knows it by. */
function knownBy({ code, reason, deliveryId, payer, transaction }: Partial<FoundCall>): string {
  if (code !== undefined) return `${code}: ${problemDetail(reason ?? "")}`;
  return deliveryId ?? transaction ?? payer ?? "-";
}

function toJson({ id, state, at, origin, job, acceptedAt, endedAt, deliveryId, ...known }: FoundCall) {
  const ids = job === undefined ? undefined : idsOfKey(job);
  return {
    ...{ id, state, origin },
    since: toIso(at),
    path: known.endpoint,
    service_id: ids?.serviceId,
    job_id: ids?.jobIndex,
    delivery_id: deliveryId,
    payer: known.payer,
    transaction: known.transaction,
    accepted_at: acceptedAt === undefined ? undefined : toIso(acceptedAt),
    ended_at: endedAt === undefined ? undefined : toIso(endedAt),
    attempts: known.attempts,
    code: known.code,
    reason: known.reason,
  };
}
