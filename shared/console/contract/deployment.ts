import { z } from "zod";
import { RATE_SPANS } from "../../pricing/rates/history.ts";
import { AuditFilter, AuditPage } from "../audit-trail.ts";
import { ClosedEndpoint } from "../close-endpoint.ts";
import { ConfiguredNames } from "../configured-names.ts";
import { EndpointChange, EndpointOrder, EndpointTest, EndpointTested } from "../endpoint-states.ts";
import { EndpointDetail, EndpointView } from "../overview/endpoints.ts";
import { FLOW_SPANS, FlowView } from "../overview/flow.ts";
import { OverviewView, QueuesView } from "../overview/overview.ts";
import { PricesView } from "../overview/prices.ts";
import { EarnedView, REVENUE_DAYS_MAX } from "../overview/revenue.ts";
import { ReloadAsked } from "../reload.ts";
import type { Table } from "./operation.ts";
import { flag, jobKey, page, reasonBody, whole } from "./parameters.ts";

const job = jobKey.optional();
const span = z.enum(FLOW_SPANS);

/** Operations on the deployment as a whole. */
export const DEPLOYMENT = {
  getOverview: {
    method: "GET",
    path: "/api/v1/overview",
    role: "viewer",
    summary: "Show the current state of queues, producers, processes, open payments and Redis",
    answer: OverviewView,
    answerText: "The overview.",
  },
  getQueues: {
    method: "GET",
    path: "/api/v1/queues",
    role: "viewer",
    summary: "Show the current queues by origin, of all jobs or of one",
    query: z.strictObject({ job }),
    answer: z.object({ queues: z.array(QueuesView) }),
    answerText: "The queues. For one job, also the callbacks of its calls.",
  },
  getFlow: {
    method: "GET",
    path: "/api/v1/flow",
    role: "viewer",
    summary: "Show what happened to calls in each interval of the last hour or day, and how long they took",
    isHeavy: true,
    query: z.strictObject({ span: span.default("1h"), job }),
    answer: FlowView,
    answerText: "Counts by origin for each interval, and by job for the whole span.",
  },
  listEndpoints: {
    method: "GET",
    path: "/api/v1/endpoints",
    role: "viewer",
    summary: "List the configured webhook endpoints, with their requests in the last day",
    isHeavy: true,
    answer: z.object({ endpoints: z.array(EndpointView) }),
    answerText: "The endpoints, without secrets.",
    problems: ["start.config_invalid"],
  },
  getEndpoint: {
    method: "GET",
    path: "/api/v1/endpoint",
    role: "viewer",
    summary: "Show a webhook endpoint: its settings without secrets, and its requests over time",
    isHeavy: true,
    query: z.strictObject({ path: z.string().min(1).max(2048), span: span.default("1h") }),
    answer: EndpointDetail,
    answerText: "The endpoint.",
    problems: ["start.config_invalid", "request.not_found"],
  },
  setEndpointState: {
    method: "POST",
    path: "/api/v1/endpoints/state",
    role: "operator",
    summary: "Disable, hold or enable a webhook endpoint at all gateways, within 2 seconds",
    body: EndpointOrder,
    answer: EndpointChange,
    answerText:
      "The endpoint has the state, or had it before. Enabling releases the calls that it holds, the oldest first.",
    audit: ["disable", "hold", "enable"],
    problems: ["request.not_found"],
  },
  askReload: {
    method: "POST",
    path: "/api/v1/reload",
    role: "operator",
    summary: "Ask all processes to read their configuration again, within 10 seconds",
    body: reasonBody,
    answer: ReloadAsked,
    answerText: "The processes are asked. The overview shows the result of each.",
    audit: ["reload"],
  },
  closeEndpoint: {
    method: "POST",
    path: "/api/v1/endpoints/close",
    role: "operator",
    summary: "Stop waiting for an endpoint's secret, and delete one that was not shown",
    body: z.strictObject({ path: z.string().min(1).max(2048) }),
    answer: ClosedEndpoint,
    answerText: "The endpoint is closed.",
    audit: ["close"],
    problems: ["request.not_found"],
  },
  testEndpoint: {
    method: "POST",
    path: "/api/v1/endpoints/test",
    role: "operator",
    summary: "Have a gateway sign a sample webhook of an endpoint and send it to itself: its job runs once",
    isHeavy: true,
    body: EndpointTest,
    answer: EndpointTested,
    answerText: "The answer of the gateway, or the reason why no webhook was sent.",
    audit: ["test"],
    problems: ["request.not_found"],
  },
  getConfiguredNames: {
    method: "GET",
    path: "/api/v1/configured-names",
    role: "viewer",
    summary: "List the values for filters: paths of endpoints, and networks of accepted tokens",
    answer: ConfiguredNames,
    answerText: "The values. A list is empty if its file cannot be read.",
  },
  listPrices: {
    method: "GET",
    path: "/api/v1/prices",
    role: "viewer",
    summary: "List the prices of jobs, and the rates of tokens with their sources and history",
    query: z.strictObject({ span: z.enum(RATE_SPANS).default("1h") }),
    answer: PricesView,
    answerText: "Prices and rates. Both are empty if nothing is sold.",
    problems: ["start.config_invalid"],
  },
  listRevenue: {
    method: "GET",
    path: "/api/v1/revenue",
    role: "viewer",
    summary: "List revenue, disputed payments and refunds by day, token and job",
    query: z.strictObject({ days: whole({ min: 1, max: REVENUE_DAYS_MAX }).default(30) }),
    answer: z.object({ earned: z.array(EarnedView) }),
    answerText: "The days, newest first.",
  },
  listAudit: {
    method: "GET",
    path: "/api/v1/audit",
    role: "viewer",
    summary: "List the audit log, newest first",
    isHeavy: true,
    query: AuditFilter.extend({ ...page, grouped: flag.default(false) }),
    answer: AuditPage,
    answerText: "A page of entries: who did what, when and why.",
  },
} satisfies Table;

const liveQuery = z.strictObject({
  /**
   * Adds the counts of calls over the last hour or day to the stream. With `job`, these are only the counts of this
   * job.
   */
  flow: span.optional(),
  job,
  /** Adds the jobs to the stream. */
  jobs: z
    .literal("true")
    .transform(() => true)
    .optional(),
});

export const LIVE = {
  streamLive: {
    method: "GET",
    path: "/api/v1/live",
    role: "viewer",
    summary: "Stream the overview as server-sent events, on request with the flow and the jobs",
    query: liveQuery,
    stream: "text/event-stream",
    answerText: "A stream of server-sent events, which ends with the session.",
    problems: ["request.rate_limited"],
  },
  streamEvents: {
    method: "GET",
    path: "/api/v1/events",
    role: "viewer",
    summary: "Stream what happens to calls in all gateways and producers, as server-sent events",
    stream: "text/event-stream",
    answerText: "A stream of server-sent events, which ends with the session. It has no past.",
    problems: ["request.rate_limited"],
  },
} satisfies Table;
