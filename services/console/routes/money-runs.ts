import { z } from "zod";
import { MatchRunView, type MoneyRunsApi, RefundCheckRunView } from "../../../shared/console/money-runs.ts";
import { MatchOrder } from "../../../shared/console/transfer-matches.ts";
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
    summary: "Start an audit, which matches the transfers on the chain with the payments",
    body: MatchOrder,
    answers: {
      202: { description: "The bulk operation was started. Location has its URL.", schema: MatchRunView },
    },
    audit: ["begin_audit"],
    problems: ["token.unconfigured", "start.config_invalid", "run.too_many"],
    async answer({ body }, { api }) {
      const run = await api.moneyRuns.matches.begin(body);
      return { status: 202, json: run, headers: { Location: `${AUDITS}/${run.id}` } };
    },
  }),
  ...routesOf("matches", AUDITS, { one: "an audit", many: "audits" }, MatchRunView),
  route({
    method: "POST",
    path: CHECKS,
    access: "operator",
    summary: "Start a refund check, which finds paid refunds on the chain and closes them",
    body: z.strictObject({}),
    answers: {
      202: {
        description: "The bulk operation was started. Location has its URL.",
        schema: RefundCheckRunView,
      },
    },
    audit: ["begin_refund_check", "close_refund"],
    problems: ["token.unconfigured", "start.config_invalid", "run.too_many"],
    async answer(_asked, { api }) {
      const run = await api.moneyRuns.refundChecks.begin();
      return { status: 202, json: run, headers: { Location: `${CHECKS}/${run.id}` } };
    },
  }),
  ...routesOf("refundChecks", CHECKS, { one: "a refund check", many: "refund checks" }, RefundCheckRunView),
];

function routesOf(
  kind: keyof MoneyRunsApi,
  path: string,
  noun: { one: string; many: string },
  schema: z.ZodType,
): Route[] {
  const summaries = {
    list: `List ${noun.many}, newest first, without their findings`,
    kept: "Those in progress, and those that ended in the last 7 days.",
    show: `Show ${noun.one}, with its progress and findings`,
    cancel: `Cancel ${noun.one}; its findings so far are kept`,
  };
  return runRoutes({ path, schema, summaries, runsOf: ({ moneyRuns }) => moneyRuns[kind] });
}
