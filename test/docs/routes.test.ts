import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { CONTRACT } from "../../shared/console/contract/contract.ts";
import { nameOf } from "../../shared/http/router.ts";
import { readDocument } from "./blocks.ts";

/** The test file of each console operation. An operation without one shares the code of another operation. */
const CONSOLE: Record<keyof typeof CONTRACT, string | undefined> = {
  ...{
    signIn: "session",
    getSession: undefined,
    signOut: undefined,
    getOpenApi: "openapi",
    streamLive: "live",
    streamEvents: "events",
  },
  ...{ getOverview: "overview", getQueues: "queues", getFlow: "flow", listEndpoints: "endpoints" },
  ...{
    getEndpoint: "endpoint",
    setEndpointState: "endpoint-state",
    askReload: "ask-reload",
    closeEndpoint: "close-endpoint",
    testEndpoint: "endpoint-test",
    getConfiguredNames: "configured-names",
    listPrices: "prices",
    listRevenue: "revenue",
    listAudit: "audit",
  },
  ...{ listJobs: "jobs", getJob: "job", pauseJob: "pause-job", resumeJob: "resume-job" },
  ...{ runDelayed: "run-delayed", runCallNow: "run-now" },
  ...{ listFailed: "failed", countFailed: "failed-count", groupFailed: "failed-groups" },
  ...{ getFailed: "failed-call", getFailedBody: "failed-body", replayCall: "replay-call" },
  ...{ discardCall: "discard-call", beginReplay: "begin-replay", beginDiscard: "begin-discard" },
  ...{
    beginAcknowledge: "begin-acknowledge",
    beginAudit: "begin-audit",
    beginRefundCheck: "begin-refund-check",
    listBulk: "list-bulk",
  },
  ...{ getBulk: "bulk", cancelBulk: "cancel-bulk", resumeBulk: "resume-bulk" },
  ...{ listCalls: "calls", getCall: "call", getCallBody: "call-body", getCallResult: "call-result" },
  ...{
    countCallFacets: "call-facets",
    forgetCall: "forget-call",
    replayDelivered: "replay-delivered",
    listPayments: "payments",
    listPaymentsInFlight: "payments-in-flight",
  },
  ...{ listSpentElsewhere: "spent-elsewhere", getPayment: "payment", resolvePayment: "resolve-payment" },
  ...{ reconcilePayment: "reconcile-payment", listRefunds: "refunds", getRefundReport: "refunds-report" },
  ...{ exportRefunds: "export-refunds", getRefundExport: "refund-export", withdrawRefund: "withdraw-refund" },
  ...{
    listRejected: "rejected",
    groupRejected: "rejected-groups",
    getRejected: "rejected-request",
    getRejectedBody: "rejected-body",
  },
};

/** Each route with its row in the documents and the place of its tests. */
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
  ["docs/payments.md", "GET /x402/calls/{call_id}/events`", "x402-gateway/routes/watch-call"],
  ...["/openapi.json", "/.well-known/x402", "/llms.txt"].map(
    (path) => ["docs/payments.md", `GET ${path}`, "x402-gateway/routes/discovery"] as const,
  ),
  ["docs/webhooks.md", "GET /webhooks/calls/{call_id}`", "webhooks-gateway/routes/call-status"],
  ["docs/webhooks.md", "GET /webhooks/calls/{call_id}/result`", "webhooks-gateway/routes/call-result"],
  ["docs/webhooks.md", "GET /webhooks/calls/{call_id}/events`", "webhooks-gateway/routes/watch-call"],
  ["docs/runner.md", "POST /jobs/{job_id}", "runner/routes/run-job"],
  ["docs/runner.md", "POST /calls/{id}/run", "runner/routes/run-again"],
  ["docs/runner.md", "GET /jobs", "runner/routes/jobs"],
  ["docs/runner.md", "GET /calls", "runner/routes/calls"],
  ["docs/runner.md", "GET /calls/{id}", "runner/routes/call"],
  ["docs/runner.md", "GET /livez", "runner/routes/livez"],
  ["docs/runner.md", "GET /readyz", "runner/routes/readyz"],
  ["docs/pricing.md", "POST /pricing/jobs/{service_id}/{job_index}/quote", "pricing/routes/quote"],
] as const;

const CONSOLE_ROUTES = Object.entries(CONTRACT).flatMap(([name, operation]) => {
  const tested = CONSOLE[name as keyof typeof CONTRACT];
  const route = `${nameOf(operation).replace("+}", "}")}\``;
  return tested === undefined ? [] : [["docs/console.md", route, `console/routes/${tested}`] as const];
});

const ALL = [...ROUTES, ...CONSOLE_ROUTES];
const listed = ALL.map(([document, route]) => `${document} ${route.split("`", 1)}`);

const tests = new URL("../services/", import.meta.url);

/** The statuses that a route's tests cover. Each is a `describe` in the route's file, or a file in its folder. */
function testedIn(route: string): number[] {
  const folder = new URL(route, tests);
  const files = existsSync(folder) ? readdirSync(folder) : [];
  const own = files.flatMap((name) => /^(\d{3})\.test\.ts$/.exec(name)?.[1] ?? []);
  const file = new URL(`${route}.test.ts`, tests);
  const described = existsSync(file) ? readFileSync(file, "utf8").matchAll(/^ *describe\("(\d{3})"/gm) : [];
  return [...own, ...[...described].map(([, status]) => String(status))].map(Number).sort();
}

/** The statuses at the end of a route's row. */
function documentedIn(document: string, route: string): number[] {
  const row = readDocument(document)
    .split("\n")
    .find((line) => line.startsWith(`| \`${route}`));
  return [...String(row?.split(":").at(-1)).matchAll(/\d{3}/g)].map(Number);
}

test.each(ALL)(
  "%s lists for %s the statuses that it answers, and each has a file of tests",
  (document, route, tested) => {
    expect(documentedIn(document, route)).toEqual(testedIn(tested));
  },
);

test.each([...new Set(ALL.map(([document]) => document))])(
  "each row of %s that has statuses is listed here",
  (document) => {
    const rows = readDocument(document).matchAll(/^\| `((?:GET|POST|PUT|DELETE) \/[^`]*)`.*: \d{3}.*\|$/gm);
    expect(
      [...rows].map(([, route]) => `${document} ${route}`).filter((row) => !listed.includes(row)),
    ).toEqual([]);
  },
);

test("docs/webhooks.md lists the statuses that a webhook is answered with, and each has a file of tests", () => {
  const rows = readDocument("docs/webhooks.md").matchAll(/^\| (\d{3}) \|/gm);
  expect([...rows].map(([, status]) => Number(status))).toEqual(testedIn("webhooks-gateway/receive"));
});
