import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readDocument } from "./blocks.ts";

/** Each route's row in the documents, and where its tests are. */
const ROUTES = [
  ["docs/payments.md", "GET /x402`", "x402-gateway/routes/list-jobs"],
  ["docs/payments.md", "GET /x402/jobs/{service_id}/{job_index}/schema", "x402-gateway/routes/schema"],
  ["docs/payments.md", "GET /x402/jobs/{service_id}/{job_index}/price", "x402-gateway/routes/price"],
  [
    "docs/payments.md",
    "POST /x402/jobs/{service_id}/{job_index}` without a payment",
    "x402-gateway/routes/challenge",
  ],
  [
    "docs/payments.md",
    "POST /x402/jobs/{service_id}/{job_index}` with `PAYMENT-SIGNATURE`",
    "x402-gateway/routes/pay-job",
  ],
  [
    "docs/payments.md",
    "POST /x402/jobs/{service_id}/{job_index}/auth-dry-run",
    "x402-gateway/routes/dry-run",
  ],
  ["docs/payments.md", "GET /x402/calls/{call_id}`", "x402-gateway/routes/call-status"],
  ["docs/payments.md", "GET /x402/calls/{call_id}/result`", "x402-gateway/routes/call-result"],
  ["docs/webhooks.md", "GET /webhooks/calls/{call_id}`", "webhooks-gateway/routes/call-status"],
  ["docs/webhooks.md", "GET /webhooks/calls/{call_id}/result`", "webhooks-gateway/routes/call-result"],
  ["docs/runner.md", "POST /jobs/{job_id}", "runner/routes/run-job"],
  ["docs/runner.md", "POST /calls/{id}/run", "runner/routes/run-again"],
  ["docs/runner.md", "GET /jobs", "runner/routes/jobs"],
  ["docs/runner.md", "GET /calls", "runner/routes/calls"],
  ["docs/runner.md", "GET /calls/{id}", "runner/routes/call"],
  ["docs/runner.md", "GET /livez", "runner/routes/livez"],
  ["docs/runner.md", "GET /readyz", "runner/routes/readyz"],
  ["docs/pricing.md", "POST /pricing/jobs/{service_id}/{job_index}/quote", "pricing/routes/quote"],
  ["docs/operator.md", "POST /session`", "operator/routes/session"],
  ["docs/operator.md", "GET /api/v1/overview", "operator/routes/overview"],
  ["docs/operator.md", "GET /api/v1/queues", "operator/routes/queues"],
  ["docs/operator.md", "GET /api/v1/flow", "operator/routes/flow"],
  ["docs/operator.md", "GET /api/v1/live", "operator/routes/live"],
  ["docs/operator.md", "GET /api/v1/endpoints", "operator/routes/endpoints"],
  ["docs/operator.md", "GET /api/v1/configured-names", "operator/routes/configured-names"],
  ["docs/operator.md", "GET /api/v1/prices", "operator/routes/prices"],
  ["docs/operator.md", "GET /api/v1/revenue", "operator/routes/revenue"],
  ["docs/operator.md", "GET /api/v1/jobs`", "operator/routes/jobs"],
  ["docs/operator.md", "GET /api/v1/jobs/{service_id}/{job_index}`", "operator/routes/job"],
  ["docs/operator.md", "POST /api/v1/jobs/{service_id}/{job_index}/pause", "operator/routes/pause-job"],
  ["docs/operator.md", "POST /api/v1/jobs/{service_id}/{job_index}/resume", "operator/routes/resume-job"],
  ["docs/operator.md", "POST /api/v1/jobs/callback/{host}/pause", "operator/routes/pause-callbacks"],
  ["docs/operator.md", "GET /api/v1/failed`", "operator/routes/failed"],
  ["docs/operator.md", "GET /api/v1/failed/count", "operator/routes/failed-count"],
  ["docs/operator.md", "GET /api/v1/failed/groups", "operator/routes/failed-groups"],
  ["docs/operator.md", "GET /api/v1/failed/{call_id}`", "operator/routes/failed-call"],
  ["docs/operator.md", "GET /api/v1/failed/{call_id}/body", "operator/routes/failed-body"],
  ["docs/operator.md", "POST /api/v1/failed/replays`", "operator/routes/begin-replay"],
  ["docs/operator.md", "GET /api/v1/failed/replays`", "operator/routes/replays"],
  ["docs/operator.md", "GET /api/v1/failed/replays/{run_id}`", "operator/routes/replay-run"],
  ["docs/operator.md", "DELETE /api/v1/failed/replays/{run_id}`", "operator/routes/cancel-replay"],
  ["docs/operator.md", "POST /api/v1/failed/replays/{run_id}/resume", "operator/routes/resume-replay"],
  ["docs/operator.md", "POST /api/v1/failed/discards`", "operator/routes/begin-discard"],
  ["docs/operator.md", "POST /api/v1/failed/{call_id}/replay", "operator/routes/replay-call"],
  ["docs/operator.md", "POST /api/v1/failed/{call_id}/discard", "operator/routes/discard-call"],
  ["docs/operator.md", "GET /api/v1/calls`", "operator/routes/calls"],
  ["docs/operator.md", "GET /api/v1/calls/{call_id}`", "operator/routes/call"],
  ["docs/operator.md", "GET /api/v1/calls/{call_id}/body", "operator/routes/call-body"],
  ["docs/operator.md", "GET /api/v1/calls/{call_id}/result", "operator/routes/call-result"],
  ["docs/operator.md", "POST /api/v1/calls/{call_id}/forget", "operator/routes/forget-call"],
  ["docs/operator.md", "GET /api/v1/payments`", "operator/routes/payments"],
  ["docs/operator.md", "GET /api/v1/payments/{call_id}`", "operator/routes/payment"],
  ["docs/operator.md", "POST /api/v1/payments/{call_id}/resolve", "operator/routes/resolve-payment"],
  ["docs/operator.md", "POST /api/v1/payments/{call_id}/reconcile", "operator/routes/reconcile-payment"],
  ["docs/operator.md", "GET /api/v1/payments/in-flight", "operator/routes/payments-in-flight"],
  ["docs/operator.md", "GET /api/v1/payments/spent-elsewhere", "operator/routes/spent-elsewhere"],
  ["docs/operator.md", "GET /api/v1/payments/refunds`", "operator/routes/refunds"],
  ["docs/operator.md", "GET /api/v1/payments/refunds/report`", "operator/routes/refunds-report"],
  ["docs/operator.md", "POST /api/v1/payments/refunds/exports", "operator/routes/export-refunds"],
  ["docs/operator.md", "GET /api/v1/payments/refunds/exports/{export_id}", "operator/routes/refund-export"],
  ["docs/operator.md", "POST /api/v1/payments/{call_id}/withdraw-refund", "operator/routes/withdraw-refund"],
  ["docs/operator.md", "POST /api/v1/payments/audits", "operator/routes/begin-audit"],
  ["docs/operator.md", "GET /api/v1/payments/audits`", "operator/routes/audits"],
  ["docs/operator.md", "GET /api/v1/payments/audits/{run_id}", "operator/routes/audit-run"],
  ["docs/operator.md", "DELETE /api/v1/payments/audits/{run_id}", "operator/routes/cancel-audit"],
  ["docs/operator.md", "POST /api/v1/payments/refund-checks", "operator/routes/begin-refund-check"],
  ["docs/operator.md", "GET /api/v1/rejected`", "operator/routes/rejected"],
  ["docs/operator.md", "GET /api/v1/rejected/{rejected_id}`", "operator/routes/rejected-request"],
  ["docs/operator.md", "GET /api/v1/rejected/{rejected_id}/body", "operator/routes/rejected-body"],
  ["docs/operator.md", "GET /api/v1/audit`", "operator/routes/audit"],
  ["docs/operator.md", "GET /openapi.json", "operator/routes/openapi"],
] as const;

const tests = new URL("../services/", import.meta.url);

/** The statuses that a route's tests are about: each is a `describe` of the route's file, or a file in its folder. */
function testedIn(route: string): number[] {
  const folder = new URL(route, tests);
  const files = existsSync(folder) ? readdirSync(folder) : [];
  const own = files.flatMap((name) => /^(\d{3})\.test\.ts$/.exec(name)?.[1] ?? []);
  const file = new URL(`${route}.test.ts`, tests);
  const described = existsSync(file) ? readFileSync(file, "utf8").matchAll(/^describe\("(\d{3})"/gm) : [];
  return [...own, ...[...described].map(([, status]) => String(status))].map(Number).sort();
}

/** The statuses at the end of a route's row. */
function documentedIn(document: string, route: string): number[] {
  const row = readDocument(document)
    .split("\n")
    .find((line) => line.startsWith(`| \`${route}`));
  return [...String(row?.split(":").at(-1)).matchAll(/\d{3}/g)].map(Number);
}

test.each(ROUTES)(
  "%s lists for %s the statuses that it answers, and each has a file of tests",
  (document, route, tested) => {
    expect(documentedIn(document, route)).toEqual(testedIn(tested));
  },
);

test("docs/webhooks.md lists the statuses that a webhook is answered with, and each has a file of tests", () => {
  const rows = readDocument("docs/webhooks.md").matchAll(/^\| (\d{3}) \|/gm);
  expect([...rows].map(([, status]) => Number(status))).toEqual(testedIn("webhooks-gateway/deliver"));
});
