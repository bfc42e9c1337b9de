import { z } from "zod";
import { whyNoJobKey } from "../../../shared/call/job-ids.ts";
import { ConfiguredNames } from "../../../shared/console/configured-names.ts";
import { EndpointView } from "../../../shared/console/overview/endpoints.ts";
import { FLOW_SPANS, FlowView } from "../../../shared/console/overview/flow.ts";
import { OverviewView, QueuesView } from "../../../shared/console/overview/overview.ts";
import { PricesView } from "../../../shared/console/overview/prices.ts";
import { EarnedView, REVENUE_DAYS_MAX } from "../../../shared/console/overview/revenue.ts";
import { RATE_SPANS } from "../../../shared/pricing/rates/history.ts";
import { whole } from "../parameters.ts";
import { type Route, route } from "../route.ts";

export const flowQuery = z.strictObject({
  span: z.enum(FLOW_SPANS).default("1h"),
  /** Of one job only. */
  job: z
    .string()
    .refine((text) => whyNoJobKey(text) === undefined, "must be <service id>/<job index>, such as 7/1")
    .optional(),
});

const queuesQuery = z.strictObject({ job: flowQuery.shape.job });

const pricesQuery = z.strictObject({ span: z.enum(RATE_SPANS).default("1h") });

const revenueQuery = z.strictObject({ days: whole({ min: 1, max: REVENUE_DAYS_MAX }).default(30) });

const Queues = z.object({ queues: z.array(QueuesView) });
const Endpoints = z.object({ endpoints: z.array(EndpointView) });
const Revenue = z.object({ earned: z.array(EarnedView) });

/** What is to be seen of the deployment as a whole. */
export const overviewRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/api/v1/overview",
    access: "viewer",
    summary: "Show the current state of queues, producers, processes, open payments and Redis",
    answers: { 200: { description: "The overview.", schema: OverviewView } },
    answer: async (_asked, { overview }) => ({ status: 200, json: await overview.read() }),
  }),
  route({
    method: "GET",
    path: "/api/v1/queues",
    access: "viewer",
    summary: "Show the current queues by origin, of all jobs or of one",
    query: queuesQuery,
    answers: {
      200: { description: "The queues. For one job, also the callbacks of its calls.", schema: Queues },
    },
    answer: async ({ query }, { overview }) => ({
      status: 200,
      json: { queues: await overview.queues(query.job) },
    }),
  }),
  route({
    method: "GET",
    path: "/api/v1/flow",
    access: "viewer",
    summary: "Show what happened to calls in each interval of the last hour or day, and how long they took",
    isHeavy: true,
    query: flowQuery,
    answers: {
      200: {
        description: "Counts by origin for each interval, and by job for the whole span.",
        schema: FlowView,
      },
    },
    answer: async ({ query }, { overview }) => ({
      status: 200,
      json: await overview.flow.read(query.span, query.job),
    }),
  }),
  route({
    method: "GET",
    path: "/api/v1/endpoints",
    access: "viewer",
    summary: "List the configured webhook endpoints, with their requests in the last day",
    isHeavy: true,
    answers: { 200: { description: "The endpoints, without secrets.", schema: Endpoints } },
    problems: ["start.config_invalid"],
    answer: async (_asked, { overview }) => ({
      status: 200,
      json: { endpoints: await overview.endpoints.list() },
    }),
  }),
  route({
    method: "GET",
    path: "/api/v1/configured-names",
    access: "viewer",
    summary: "List the values for filters: paths of endpoints, and networks of accepted tokens",
    answers: {
      200: {
        description: "The values. A list is empty if its file cannot be read.",
        schema: ConfiguredNames,
      },
    },
    answer: async (_asked, { api }) => ({ status: 200, json: await api.configuredNames() }),
  }),
  route({
    method: "GET",
    path: "/api/v1/prices",
    access: "viewer",
    summary: "List the prices of jobs, and the rates of tokens with their sources and history",
    query: pricesQuery,
    answers: {
      200: { description: "Prices and rates. Both are empty if nothing is sold.", schema: PricesView },
    },
    problems: ["start.config_invalid"],
    answer: async ({ query }, { overview }) => ({
      status: 200,
      json: await overview.prices.read(query.span),
    }),
  }),
  route({
    method: "GET",
    path: "/api/v1/revenue",
    access: "viewer",
    summary: "List revenue and refunds by day, token and job",
    query: revenueQuery,
    answers: { 200: { description: "The days, newest first.", schema: Revenue } },
    answer: async ({ query }, { overview }) => ({
      status: 200,
      json: { earned: await overview.revenue(query.days) },
    }),
  }),
];
