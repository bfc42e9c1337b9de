import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ROUTES as CONSOLE_ROUTES } from "../../services/console/routes/routes.ts";
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
  ["docs/payments.md", "GET /x402/calls/{call_id}/events`", "x402-gateway/routes/watch-call"],
  ["docs/payments.md", "GET /x402/calls/{call_id}/result`", "x402-gateway/routes/call-result"],
  ["docs/webhooks.md", "GET /webhooks/calls/{call_id}`", "webhooks-gateway/routes/call-status"],
  ["docs/webhooks.md", "GET /webhooks/calls/{call_id}/events`", "webhooks-gateway/routes/watch-call"],
  ["docs/webhooks.md", "GET /webhooks/calls/{call_id}/result`", "webhooks-gateway/routes/call-result"],
  ["docs/runner.md", "POST /jobs/{job_id}", "runner/routes/run-job"],
  ["docs/runner.md", "POST /calls/{id}/run", "runner/routes/run-again"],
  ["docs/runner.md", "GET /jobs", "runner/routes/jobs"],
  ["docs/runner.md", "GET /calls", "runner/routes/calls"],
  ["docs/runner.md", "GET /calls/{id}", "runner/routes/call"],
  ["docs/runner.md", "GET /livez", "runner/routes/livez"],
  ["docs/runner.md", "GET /readyz", "runner/routes/readyz"],
  ["docs/pricing.md", "POST /pricing/jobs/{service_id}/{job_index}/quote", "pricing/routes/quote"],
  ["docs/operator.md", "POST /session`", "console/routes/session"],
  ["docs/operator.md", "GET /api/v1/overview", "console/routes/overview"],
  ["docs/operator.md", "GET /api/v1/queues", "console/routes/queues"],
  ["docs/operator.md", "GET /api/v1/flow", "console/routes/flow"],
  ["docs/operator.md", "GET /api/v1/live", "console/routes/live"],
  ["docs/operator.md", "GET /api/v1/endpoints", "console/routes/endpoints"],
  ["docs/operator.md", "GET /api/v1/configured-names", "console/routes/configured-names"],
  ["docs/operator.md", "GET /api/v1/prices", "console/routes/prices"],
  ["docs/operator.md", "GET /api/v1/revenue", "console/routes/revenue"],
  ["docs/operator.md", "GET /api/v1/jobs`", "console/routes/jobs"],
  ["docs/operator.md", "GET /api/v1/jobs/{service_id}/{job_index}`", "console/routes/job"],
  ["docs/operator.md", "POST /api/v1/jobs/{service_id}/{job_index}/pause", "console/routes/pause-job"],
  ["docs/operator.md", "POST /api/v1/jobs/{service_id}/{job_index}/resume", "console/routes/resume-job"],
  ["docs/operator.md", "POST /api/v1/jobs/callback/{host}/pause", "console/routes/pause-callbacks"],
  ["docs/operator.md", "GET /api/v1/failed`", "console/routes/failed"],
  ["docs/operator.md", "GET /api/v1/failed/count", "console/routes/failed-count"],
  ["docs/operator.md", "GET /api/v1/failed/groups", "console/routes/failed-groups"],
  ["docs/operator.md", "GET /api/v1/failed/{call_id}`", "console/routes/failed-call"],
  ["docs/operator.md", "GET /api/v1/failed/{call_id}/body", "console/routes/failed-body"],
  ["docs/operator.md", "POST /api/v1/failed/replays`", "console/routes/begin-replay"],
  ["docs/operator.md", "GET /api/v1/failed/replays`", "console/routes/replays"],
  ["docs/operator.md", "GET /api/v1/failed/replays/{run_id}`", "console/routes/replay-run"],
  ["docs/operator.md", "DELETE /api/v1/failed/replays/{run_id}`", "console/routes/cancel-replay"],
  ["docs/operator.md", "POST /api/v1/failed/replays/{run_id}/resume", "console/routes/resume-replay"],
  ["docs/operator.md", "POST /api/v1/failed/discards`", "console/routes/begin-discard"],
  ["docs/operator.md", "POST /api/v1/failed/{call_id}/replay", "console/routes/replay-call"],
  ["docs/operator.md", "POST /api/v1/failed/{call_id}/discard", "console/routes/discard-call"],
  ["docs/operator.md", "GET /api/v1/calls`", "console/routes/calls"],
  ["docs/operator.md", "GET /api/v1/calls/{call_id}`", "console/routes/call"],
  ["docs/operator.md", "GET /api/v1/calls/{call_id}/body", "console/routes/call-body"],
  ["docs/operator.md", "GET /api/v1/calls/{call_id}/result", "console/routes/call-result"],
  ["docs/operator.md", "POST /api/v1/calls/{call_id}/forget", "console/routes/forget-call"],
  ["docs/operator.md", "GET /api/v1/payments`", "console/routes/payments"],
  ["docs/operator.md", "GET /api/v1/payments/{call_id}`", "console/routes/payment"],
  ["docs/operator.md", "POST /api/v1/payments/{call_id}/resolve", "console/routes/resolve-payment"],
  ["docs/operator.md", "POST /api/v1/payments/{call_id}/reconcile", "console/routes/reconcile-payment"],
  ["docs/operator.md", "GET /api/v1/payments/in-flight", "console/routes/payments-in-flight"],
  ["docs/operator.md", "GET /api/v1/payments/spent-elsewhere", "console/routes/spent-elsewhere"],
  ["docs/operator.md", "GET /api/v1/payments/refunds`", "console/routes/refunds"],
  ["docs/operator.md", "GET /api/v1/payments/refunds/report`", "console/routes/refunds-report"],
  ["docs/operator.md", "POST /api/v1/payments/refunds/exports", "console/routes/export-refunds"],
  ["docs/operator.md", "GET /api/v1/payments/refunds/exports/{export_id}", "console/routes/refund-export"],
  ["docs/operator.md", "POST /api/v1/payments/{call_id}/withdraw-refund", "console/routes/withdraw-refund"],
  ["docs/operator.md", "POST /api/v1/payments/audits", "console/routes/begin-audit"],
  ["docs/operator.md", "GET /api/v1/payments/audits`", "console/routes/audits"],
  ["docs/operator.md", "GET /api/v1/payments/audits/{run_id}", "console/routes/audit-run"],
  ["docs/operator.md", "DELETE /api/v1/payments/audits/{run_id}", "console/routes/cancel-audit"],
  ["docs/operator.md", "POST /api/v1/payments/refund-checks", "console/routes/begin-refund-check"],
  ["docs/operator.md", "GET /api/v1/rejected`", "console/routes/rejected"],
  ["docs/operator.md", "GET /api/v1/rejected/{rejected_id}`", "console/routes/rejected-request"],
  ["docs/operator.md", "GET /api/v1/rejected/{rejected_id}/body", "console/routes/rejected-body"],
  ["docs/operator.md", "GET /api/v1/audit`", "console/routes/audit"],
  ["docs/operator.md", "GET /openapi.json", "console/routes/openapi"],
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

const listed = ROUTES.map(([document, route]) => `${document} ${route.split("`", 1)}`);

test.each([...new Set(ROUTES.map(([document]) => document))])(
  "each row of %s that has statuses is listed here",
  (document) => {
    const rows = readDocument(document).matchAll(/^\| `((?:GET|POST|PUT|DELETE) \/[^`]*)`.*: \d{3}.*\|$/gm);
    expect(
      [...rows].map(([, route]) => `${document} ${route}`).filter((row) => !listed.includes(row)),
    ).toEqual([]);
  },
);

/** The route whose row also describes this one. */
function describedBy(route: string): string {
  return route
    .replace(/^(GET|DELETE) \/session$/, "POST /session")
    .replace(/jobs\/callback(\/\{host\})?(\/\{port\})?/, "jobs/{service_id}/{job_index}")
    .replace("failed/discards", "failed/replays")
    .replace("payments/refund-checks", "payments/audits");
}

test("each route of the console is listed here, itself or by the row that describes it too, and no other is", () => {
  const routes = CONSOLE_ROUTES.map(({ method, path }) => `${method} ${path}`);
  const here = listed.flatMap((each) => (each.startsWith("docs/operator.md ") ? [each.slice(17)] : []));
  expect(routes.filter((each) => !here.includes(each) && !here.includes(describedBy(each)))).toEqual([]);
  expect(here.filter((each) => !routes.includes(each))).toEqual([]);
});

test("docs/webhooks.md lists the statuses that a webhook is answered with, and each has a file of tests", () => {
  const rows = readDocument("docs/webhooks.md").matchAll(/^\| (\d{3}) \|/gm);
  expect([...rows].map(([, status]) => Number(status))).toEqual(testedIn("webhooks-gateway/deliver"));
});
