import { loadEndpointNames } from "../../../shared/config/endpoint-names.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import {
  createRejectedList,
  type RejectedFilter,
  type RejectedRequest,
} from "../../../shared/rejected/list.ts";
import { toIso } from "../../../shared/time/iso.ts";
import { whyUnknown } from "../endpoint/unknown-path.ts";
import { createListing } from "../listing.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { toIsoSeconds } from "../text.ts";
import { withRedis } from "../with-redis.ts";

/** A limit of 0 is none. */
export type ListOptions = RejectedFilter & { limit: number; configDir: string; json?: boolean };

/**
 * `postern rejected list`: the newest refused requests first, then how many match. The requests of an endpoint that is no
 * longer configured can still be listed.
 */
export function listRejected(deps: ProgramDeps, options: ListOptions): Promise<number> {
  const limit = options.limit === 0 ? Number.POSITIVE_INFINITY : options.limit;
  const { path } = options;
  return withRedis(deps, options, async ({ partition }) => {
    const { matching } = createRejectedList(partition);
    const problem = path === undefined ? undefined : whyUnknown(path, loadEndpointNames(options.configDir));
    if (problem !== undefined && (await matching({ path }, 0)).count === 0) {
      deps.printError(`error: ${problem}\n`);
      return EXIT.usage;
    }
    const listing = createListing(deps, options.json, {
      columns: [
        { heading: "ID", width: 21 },
        { heading: "REFUSED", width: 20 },
        { heading: "ADDRESS", width: 15 },
        { heading: "METHOD", width: 6 },
        { heading: "PATH", width: 20, cutTo: 16 },
        { heading: "CODE", width: 27, tone: () => "bad" },
        { heading: "REASON", cutTo: 24 },
      ],
      toCells,
      toJson,
    });
    const { count, newest } = await matching(options, limit);
    for (const request of newest) listing.add(request);
    const missed = newest.reduce((sum, request) => sum + request.missed, 0);
    const more = newest.length < count ? `; ${newest.length} are listed (--limit 0 lists all)` : "";
    const unkept = missed > 0 ? `; ${missed} more came between them and were not kept` : "";
    listing.end(`${count} ${count === 1 ? "request was" : "requests were"} refused${more}${unkept}`);
    return EXIT.ok;
  });
}

function toCells({ id, at, address, method, path, code, reason }: RejectedRequest): string[] {
  return [id, toIsoSeconds(at), address, method, path, code, reason];
}

/** A refused request for scripts, without its body. */
export function toJson(request: RejectedRequest) {
  const { id, at, endpoint, address, method, path, query, code, reason, headers, missed } = request;
  return {
    id,
    refused_at: toIso(at),
    endpoint: endpoint ?? null,
    address,
    method,
    path,
    query_names: query,
    code,
    reason,
    header_names: headers,
    signature_headers: { came: request.came ?? null, wanted: request.wanted ?? null },
    bytes: request.bytes ?? null,
    missed_before: missed,
  };
}
