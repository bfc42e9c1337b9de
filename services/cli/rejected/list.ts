import type { RejectedFilter, RejectedView } from "../../../shared/console/rejected.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { adviceFor } from "../../../shared/webhook-auth/advice.ts";
import { refuseUnknownPath } from "../endpoints/unknown-path.ts";
import { createListing } from "../listing.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { age, counted, toSeconds } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

/** A limit of 0 means no limit. `since` is in unix ms. */
export type ListOptions = OperationTarget &
  Omit<RejectedFilter, "since"> & {
    since?: number;
    limit: number;
    json?: boolean;
  };

const PAGE_MAX = 500;

/**
 * `postern rejected list`: prints refused requests, newest first, and then the number of those that match. It also
 * finds requests that were sent to an endpoint that is no longer configured.
 */
export function listRejected(deps: ProgramDeps, options: ListOptions): Promise<number> {
  const most = options.limit === 0 ? Number.POSITIVE_INFINITY : options.limit;
  const { endpoint, unknown, code, since } = options;
  const filter = { endpoint, unknown, code, since: since === undefined ? undefined : toIso(since) };
  return withOperations(deps, options, async (operations) => {
    const isEmpty =
      endpoint !== undefined && (await operations.listRejected({ endpoint, limit: 1 })).count === 0;
    const refused = isEmpty ? await refuseUnknownPath(deps, endpoint, operations) : undefined;
    if (refused !== undefined) return refused;
    const listing = createListing<RejectedView>(deps, {
      columns: [
        { heading: "ID" },
        { heading: "REFUSED" },
        { heading: "AGE", alignRight: true },
        { heading: "ADDRESS" },
        { heading: "METHOD" },
        { heading: "PATH", cutTo: 16 },
        { heading: "CODE", tone: () => "bad" },
        { heading: "REASON", cutTo: 24 },
        { heading: "DELIVERY", isWide: true },
      ],
      toCells,
      toJson: (request) => request,
      toName: ({ id }) => id,
    });
    const found: Found = { shown: 0, missed: 0, count: 0, next: null };
    do {
      const limit = Math.min(PAGE_MAX, most - found.shown);
      const page = await operations.listRejected({ ...filter, limit, cursor: found.next ?? undefined });
      for (const request of page.requests) {
        listing.add(request);
        found.shown += 1;
        found.missed += request.missed_before;
      }
      found.count = page.count;
      found.next = page.next;
    } while (found.next !== null && found.shown < most);
    listing.end(foundText(found));
    return EXIT.ok;
  });
}

type Found = { shown: number; missed: number; count: number; next: string | null };

function foundText({ shown, missed, count }: Found): string {
  const more = shown < count ? `; ${counted(shown, "is", "are")} listed (--limit 0 lists all)` : "";
  const unkept = missed > 0 ? `; not kept: ${counted(missed, "request")} in between` : "";
  return `${counted(count, "refused request")}${more}${unkept}`;
}

/**
 * Returns the reason of a refusal in words. A reason without a detail after a colon, such as `mismatch`, is replaced by
 * an explanation, if there is one.
 */
function inWords(request: RejectedView): string {
  const isWord = !request.reason.includes(":");
  return (isWord ? adviceFor(request)?.says : undefined) ?? request.reason;
}

function toCells(request: RejectedView): string[] {
  const { id, refused_at: at, address, method, path, code, delivery_id: delivery } = request;
  return [id, toSeconds(at), age(at), address, method, path, code, inWords(request), delivery ?? ""];
}
