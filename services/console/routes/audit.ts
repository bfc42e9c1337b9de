import { AuditFilter, AuditPage } from "../../../shared/console/audit-trail.ts";
import { page } from "../parameters.ts";
import { type Route, route } from "../route.ts";

/** Who did what, by the console or by commands. */
export const auditRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/api/v1/audit",
    access: "viewer",
    summary: "List the audit trail, newest first",
    isHeavy: true,
    query: AuditFilter.extend(page),
    answers: { 200: { description: "A page of entries: who did what, when and why.", schema: AuditPage } },
    answer: async ({ query: { limit, cursor, ...filter } }, { api }) => ({
      status: 200,
      json: await api.auditTrail(filter, { limit, cursor }),
    }),
  }),
];
