import { z } from "zod";
import { AuditOrder } from "../../../shared/operator/money-audit.ts";
import { AuditRunView, type MoneyRunsApi, RefundCheckRunView } from "../../../shared/operator/money-runs.ts";
import { type Route, route } from "../route.ts";
import { runRoutes } from "./runs.ts";

const AUDITS = "/api/v1/payments/audits";
const CHECKS = "/api/v1/payments/refund-checks";

/** Work on the money that asks the chain about many blocks: each is a resource that says how far it is. */
export const moneyRunRoutes: readonly Route[] = [
  route({
    method: "POST",
    path: AUDITS,
    access: "operator",
    summary: "Begin to match the transfers to us, as the chain shows them, with the payments",
    body: AuditOrder,
    answers: { 202: { description: "It has begun; Location says where to look", schema: AuditRunView } },
    problems: ["token.unconfigured", "start.config_invalid", "run.too_many"],
    async answer({ body }, { api }) {
      const run = await api.moneyRuns.audits.begin(body);
      return { status: 202, json: run, headers: { Location: `${AUDITS}/${run.id}` } };
    },
  }),
  ...routesOf("audits", AUDITS, "an audit of the money", AuditRunView),
  route({
    method: "POST",
    path: CHECKS,
    access: "operator",
    summary: "Begin to look on the chain for what was paid back, and close those cases",
    body: z.strictObject({}),
    answers: {
      202: { description: "It has begun; Location says where to look", schema: RefundCheckRunView },
    },
    problems: ["token.unconfigured", "start.config_invalid", "run.too_many"],
    async answer(_asked, { api }) {
      const run = await api.moneyRuns.refundChecks.begin();
      return { status: 202, json: run, headers: { Location: `${CHECKS}/${run.id}` } };
    },
  }),
  ...routesOf("refundChecks", CHECKS, "a look for refunds", RefundCheckRunView),
];

function routesOf(kind: keyof MoneyRunsApi, path: string, noun: string, schema: z.ZodType): Route[] {
  const summaries = {
    list: `List the last runs of ${noun}, the newest first, without what they have found`,
    kept: "Those that ended in the last 7 days",
    show: `Show how far ${noun} is, and what it has found`,
    cancel: `Cancel ${noun}; what it has found so far is kept`,
  };
  return runRoutes({ path, schema, summaries, runsOf: ({ moneyRuns }) => moneyRuns[kind] });
}
