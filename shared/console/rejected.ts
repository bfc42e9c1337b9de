import { z } from "zod";
import { AppError } from "../platform/errors/app-error.ts";
import { isErrorCode } from "../platform/errors/codes.ts";
import { toIso } from "../platform/time/iso.ts";
import type { OperateDeps } from "../queue/operate.ts";
import { createAudit } from "../redis/audit/audit.ts";
import { REJECTED_ID_BEGINNING } from "../telemetry/rejected/entry.ts";
import {
  createRejectedList,
  type RejectedFilter as Filter,
  type RejectedRequest,
} from "../telemetry/rejected/list.ts";
import { CREDENTIAL_KINDS } from "../webhook-auth/advice.ts";
import { errorCode } from "./contract/parameters.ts";
import { fromCursor, next, type PageRequest, toCursor } from "./cursor.ts";
import { askedMs, askedTime, count, isoTime } from "./view.ts";

/**
 * A refused request. It never became a call. Its body and the values of its query are left out. Only the
 * names of its headers and the delivery id are shown.
 */
export const RejectedView = z
  .object({
    id: z.string(),
    refused_at: isoTime,
    /** Path of the endpoint that refused the request; null if no endpoint had the request's path. */
    endpoint: z.string().nullable(),
    address: z.string(),
    method: z.string(),
    path: z.string(),
    query_names: z.array(z.string()),
    code: z.string(),
    reason: z.string(),
    /** The delivery id, cut to 128 characters. Null unless the endpoint reads delivery ids from headers. */
    delivery_id: z.string().nullable(),
    header_names: z.array(z.string()),
    /**
     * Names of the headers with a credential that the request had (`came`), and the places where the endpoint
     * expects one (`wanted`).
     */
    signature_headers: z
      .object({ came: z.array(z.string()).nullable(), wanted: z.array(z.string()).nullable() })
      .meta({ id: "SignatureHeaders" }),
    /** Kind of credential that the sender had to use; null if the request was not refused for its credential. */
    credential: z.enum(CREDENTIAL_KINDS).nullable(),
    /** Number of bytes of the body that arrived or were declared. */
    bytes: count.nullable(),
    /** Number of requests that were refused between the previous kept one and this one, and were not kept. */
    missed_before: count,
  })
  .meta({ id: "Rejected" });
export type RejectedView = z.infer<typeof RejectedView>;

export const RejectedDetail = RejectedView.extend({
  /** The body or its beginning; null unless the endpoint keeps the bodies of rejected requests. */
  body_base64: z.string().nullable(),
}).meta({ id: "RejectedDetail" });
export type RejectedDetail = z.infer<typeof RejectedDetail>;

/** Selects refused requests that match every field that is set. */
export const RejectedFilter = z.strictObject({
  /** Path of the endpoint that refused the request. */
  endpoint: z.string().min(1).max(2048).optional(),
  /** True selects requests to paths that no endpoint has. */
  unknown: z.boolean().optional(),
  since: askedTime.optional(),
  code: errorCode.optional(),
  /** Reason without its detail: the text before the first colon. */
  reason: z.string().max(256).optional(),
});
export type RejectedFilter = z.infer<typeof RejectedFilter>;

export const RejectedPage = z.object({
  /** Number of requests that match. */
  count,
  requests: z.array(RejectedView),
  next,
});
export type RejectedPage = z.infer<typeof RejectedPage>;

/** Refused requests of one endpoint with one code and one reason. */
export const RejectedGroupView = z
  .object({
    /** Path of the endpoint that refused the requests; null if no endpoint had their path. */
    endpoint: z.string().nullable(),
    code: z.string(),
    /** Reason without its detail: the text before the first colon. */
    reason: z.string(),
    count,
    /** Time of the oldest kept request of this group. */
    oldest_at: isoTime,
    newest_at: isoTime,
  })
  .meta({ id: "RejectedGroup" });
export type RejectedGroupView = z.infer<typeof RejectedGroupView>;

const Place = z.strictObject({ at: z.number(), id: z.string() });

export type RejectedApi = {
  /** Lists refused requests, newest first. */
  page(filter: RejectedFilter, page: PageRequest): Promise<RejectedPage>;
  /** Groups the matching requests by endpoint, code and reason, the largest group first. */
  groups(filter: RejectedFilter): Promise<RejectedGroupView[]>;
  /**
   * Shows the request whose id begins with `beginning`. Writes a line in the audit log if a body was kept. Throws
   * `rejected.unknown`, and `rejected.ambiguous` if several requests match.
   */
  show(beginning: string): Promise<RejectedDetail>;
};

/** Implements the operations on refused requests. */
export function createRejectedApi({ partition, clock, log, by }: OperateDeps): RejectedApi {
  const rejected = createRejectedList(partition, clock);
  const audit = createAudit(partition, log);
  return {
    async page(filter, { limit, cursor }) {
      const after = fromCursor(Place, cursor);
      const found = await rejected.matching(toFilter(filter), limit + 1, after);
      const shown = found.newest.slice(0, limit);
      const last = found.newest.length > limit ? shown.at(-1) : undefined;
      return {
        count: found.count,
        requests: shown.map(toView),
        next: toCursor(last && { at: last.at, id: last.id }),
      };
    },

    async groups(filter) {
      const groups = await rejected.groups(toFilter(filter));
      return groups
        .sort((a, b) => b.count - a.count || b.newestAt - a.newestAt)
        .map(({ endpoint, code, reason, count: requests, oldestAt, newestAt }) => ({
          endpoint: endpoint ?? null,
          code,
          reason,
          count: requests,
          oldest_at: toIso(oldestAt),
          newest_at: toIso(newestAt),
        }));
    },

    async show(beginning) {
      const [request, ...others] = await rejected.find(beginning);
      if (request === undefined) {
        const detail = `${beginning} is unknown: there was no such request, or newer ones have replaced it`;
        throw AppError.public("rejected.unknown", detail);
      }
      if (others.length > 0) {
        const detail = `${beginning} is ambiguous: ${others.length + 1} request ids start with it, such as ${request.id}`;
        throw AppError.public("rejected.ambiguous", detail);
      }
      const { id, body } = request;
      if (body !== undefined)
        await audit({ at: clock(), action: "read_rejected", rejectedId: id, by, selection: "by id" });
      return { ...toView(request), body_base64: body ?? null };
    },
  };
}

const FOUND_MAX = 10;

/** Finds the newest refused requests whose id starts with a text. */
export function createFindRejected(...deps: Parameters<typeof createRejectedList>) {
  const rejected = createRejectedList(...deps);
  return async (text: string): Promise<RejectedView[]> => {
    const beginning = text.toLowerCase();
    if (!REJECTED_ID_BEGINNING.test(beginning)) return [];
    const found = await rejected.find(beginning);
    return found
      .sort((a, b) => b.at - a.at)
      .slice(0, FOUND_MAX)
      .map(toView);
  };
}

function toFilter({ endpoint: path, unknown, since, code, reason }: RejectedFilter): Filter {
  return {
    path,
    unknown,
    since: askedMs(since),
    code: code !== undefined && isErrorCode(code) ? code : undefined,
    reason,
  };
}

function toView(request: RejectedRequest): RejectedView {
  const { id, at, endpoint, address, method, path, query, code, reason, headers, missed } = request;
  return {
    id,
    refused_at: toIso(at),
    endpoint: endpoint ?? null,
    address,
    method,
    path,
    query_names: [...query],
    code,
    reason,
    delivery_id: request.delivery ?? null,
    header_names: [...headers],
    signature_headers: {
      came: request.came === undefined ? null : [...request.came],
      wanted: request.wanted === undefined ? null : [...request.wanted],
    },
    credential: request.credential ?? null,
    bytes: request.bytes ?? null,
    missed_before: missed,
  };
}
