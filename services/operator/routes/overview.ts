import { z } from "zod";
import { whyNoJobKey } from "../../../shared/job-call/job-ids.ts";
import { ConfiguredNames } from "../../../shared/operator/configured-names.ts";
import { EndpointView } from "../../../shared/operator/endpoints.ts";
import { FLOW_SPANS, FlowView } from "../../../shared/operator/flow.ts";
import { OverviewView } from "../../../shared/operator/overview.ts";
import { PricesView } from "../../../shared/operator/prices.ts";
import { EarnedView, REVENUE_DAYS_MAX } from "../../../shared/operator/revenue.ts";
import { RATE_SPANS } from "../../../shared/pricing/rates/history.ts";
import { whole } from "../parameters.ts";
import { type Route, route } from "../route.ts";

export const flowQuery = z.strictObject({
  span: z.enum(FLOW_SPANS).default("1h"),
  /** Of one job only. */
  job: z
    .string()
    .refine((text) => whyNoJobKey(text) === undefined, "is not <service id>/<job index>, as 7/1")
    .optional(),
});

const pricesQuery = z.strictObject({ span: z.enum(RATE_SPANS).default("1h") });

const revenueQuery = z.strictObject({ days: whole({ min: 1, max: REVENUE_DAYS_MAX }).default(30) });

const Endpoints = z.object({ endpoints: z.array(EndpointView) });
const Revenue = z.object({ earned: z.array(EarnedView) });

/** What is to be seen of the deployment as a whole. */
export const overviewRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/api/v1/overview",
    access: "viewer",
    summary: "Say how the deployment is now: queues, producers, processes, payments that wait, Redis",
    answers: { 200: { description: "All of it", schema: OverviewView } },
    answer: async (_asked, { overview }) => ({ status: 200, json: await overview.read() }),
  }),
  route({
    method: "GET",
    path: "/api/v1/flow",
    access: "viewer",
    summary: "Say what happened to calls in each span of the last hour or day, and how long they took",
    isHeavy: true,
    query: flowQuery,
    answers: { 200: { description: "By origin over time, and by job over all of it", schema: FlowView } },
    answer: async ({ query }, { overview }) => ({
      status: 200,
      json: await overview.flow.read(query.span, query.job),
    }),
  }),
  route({
    method: "GET",
    path: "/api/v1/endpoints",
    access: "viewer",
    summary: "List the webhook endpoints as configured, and what came to each in the last day",
    isHeavy: true,
    answers: { 200: { description: "The endpoints, without anything secret", schema: Endpoints } },
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
    summary: "List the names that a filter may have: paths of endpoints, networks of accepted tokens",
    answers: { 200: { description: "A list is empty if its names are not known", schema: ConfiguredNames } },
    answer: async (_asked, { api }) => ({ status: 200, json: await api.configuredNames() }),
  }),
  route({
    method: "GET",
    path: "/api/v1/prices",
    access: "viewer",
    summary: "List what jobs cost, and what each token is worth and was in the last hour or day, and by whom",
    query: pricesQuery,
    answers: { 200: { description: "Both are empty where nothing is sold", schema: PricesView } },
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
    summary: "List what payments brought, by day, token and job",
    query: revenueQuery,
    answers: { 200: { description: "The newest day first", schema: Revenue } },
    answer: async ({ query }, { overview }) => ({
      status: 200,
      json: { earned: await overview.revenue(query.days) },
    }),
  }),
];
