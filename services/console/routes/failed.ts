import { z } from "zod";
import {
  FailedCallDetail,
  FailedFilter,
  FailedGroupView,
  FailedPage,
} from "../../../shared/console/failed.ts";
import { count } from "../../../shared/console/view.ts";
import { callParams, page, reason, whole } from "../parameters.ts";
import { type Route, route } from "../route.ts";

const CALL = "/api/v1/failed/{call_id}";

/** The filter as it stands in a query. */
const filterQuery = FailedFilter.extend({
  service_id: whole().optional(),
  job_id: whole().optional(),
});

const FailedGroups = z.object({ groups: z.array(FailedGroupView) });
const FailedCounts = z.object({ matched: count, total: count });

const WHERE = ["call.not_failed", "call.forgotten", "call.unknown"] as const;

/** As `postern failed` of single calls; those of many are in bulk.ts. */
export const failedRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/api/v1/failed",
    access: "viewer",
    summary: "List failed calls, newest first",
    isHeavy: true,
    query: filterQuery.extend(page),
    answers: { 200: { description: "A page of failed calls.", schema: FailedPage } },
    answer: async ({ query: { limit, cursor, ...filter } }, { api }) => ({
      status: 200,
      json: await api.failed.page(filter, { limit, cursor }),
    }),
  }),
  route({
    method: "GET",
    path: "/api/v1/failed/count",
    access: "viewer",
    summary: "Count failed calls",
    isHeavy: true,
    query: filterQuery,
    answers: {
      200: { description: "The number of matching calls, and of all failed calls.", schema: FailedCounts },
    },
    answer: async ({ query }, { api, signal }) => ({
      status: 200,
      json: await api.failed.count(query, signal),
    }),
  }),
  route({
    method: "GET",
    path: "/api/v1/failed/groups",
    access: "viewer",
    summary: "Count failed calls by job, origin and code",
    isHeavy: true,
    query: filterQuery,
    answers: { 200: { description: "The groups, unordered.", schema: FailedGroups } },
    answer: async ({ query }, { api, signal }) => ({
      status: 200,
      json: { groups: await api.failed.groups(query, signal) },
    }),
  }),
  route({
    method: "GET",
    path: CALL,
    access: "viewer",
    summary: "Show a failed call, with its metadata and failed attempts, but without its body",
    params: callParams,
    answers: { 200: { description: "The failed call.", schema: FailedCallDetail } },
    problems: WHERE,
    answer: async ({ params }, { api }) => ({ status: 200, json: await api.failed.show(params.call_id) }),
  }),
  route({
    method: "GET",
    path: `${CALL}/body`,
    access: "viewer",
    summary: "Get the body of a failed call, as it was received",
    isHeavy: true,
    params: callParams,
    answers: {
      200: { description: "The bytes, of any type.", contentType: "application/octet-stream" },
    },
    audit: ["read_body"],
    problems: [...WHERE, "call.corrupt"],
    answer: async ({ params: { call_id: id } }, { api }) => ({
      ...{ status: 200, bytes: await api.failed.body(id), contentType: "application/octet-stream" },
      // A stranger has written it: no browser is to show it.
      headers: { "Content-Disposition": `attachment; filename="${id}"` },
    }),
  }),
  route({
    method: "POST",
    path: `${CALL}/replay`,
    access: "operator",
    summary: "Replay a failed call: queue it again, with all its attempts and the same idempotency key",
    params: callParams,
    body: z.strictObject({
      reason,
      /** Also if its runner may have forgotten its key, and so may run it twice. */
      force: z.boolean().default(false),
    }),
    answers: { 204: { description: "The call is queued." } },
    audit: ["replay"],
    problems: [...WHERE, "call.too_old"],
    async answer({ params, body }, { api }) {
      await api.failed.replay(params.call_id, body);
      return { status: 204 };
    },
  }),
  route({
    method: "POST",
    path: `${CALL}/discard`,
    access: "operator",
    summary: "Discard a failed call: delete its body; it never runs again",
    params: callParams,
    body: z.strictObject({ reason }),
    answers: { 204: { description: "The call is discarded." } },
    audit: ["discard"],
    problems: WHERE,
    async answer({ params, body }, { api }) {
      await api.failed.discard(params.call_id, body);
      return { status: 204 };
    },
  }),
];
