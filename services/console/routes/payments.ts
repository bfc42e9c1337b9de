import { z } from "zod";
import { PaymentDetail } from "../../../shared/console/payment-view.ts";
import { PaymentFilter, PaymentPage } from "../../../shared/console/payments.ts";
import { InFlightPage, Reconciled } from "../../../shared/console/reconcile.ts";
import { SpentElsewherePage } from "../../../shared/console/spent-elsewhere.ts";
import { callParams, flag, page, reason, whole } from "../parameters.ts";
import { type Route, route } from "../route.ts";

const PAYMENT = "/api/v1/payments/{call_id}";

/** The filter as it stands in a query. */
const filterQuery = PaymentFilter.extend({ open: flag.optional(), disputed: flag.optional() });

/** Each of them costs several questions to a node. */
const spentQuery = z.strictObject({ ...page, limit: whole({ min: 1, max: 50 }).default(20) });

/** Ids alone: so many fit into one answer. */
const inFlightQuery = z.strictObject({ ...page, limit: whole({ min: 1, max: 500 }).default(500) });

const transaction = z
  .string()
  .regex(/^0x[0-9a-fA-F]{64}$/, "must be a transaction hash: 0x and 64 hex digits")
  .transform((text) => text.toLowerCase());

const Decision = z.discriminatedUnion("verdict", [
  /** The money is there: its call runs. */
  z.strictObject({ verdict: z.literal("settled"), transaction, reason }),
  /** It was not paid, and is not going to be: its body is deleted. */
  z.strictObject({ verdict: z.literal("void"), reason }),
  /** Of a disputed one: it was seen. */
  z.strictObject({ verdict: z.literal("acknowledged"), reason }),
  /** Of one that is settling or in review: its body is deleted and no settle is sent. Money that comes all the same is due back. */
  z.strictObject({ verdict: z.literal("dropped"), reason }),
]);

/** As `postern payments`, but for refunds (refunds.ts) and what takes long (money-runs.ts). */
export const paymentRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/api/v1/payments",
    access: "viewer",
    summary: "List payments, newest first",
    isHeavy: true,
    query: filterQuery.extend(page),
    answers: { 200: { description: "A page of payments.", schema: PaymentPage } },
    answer: async ({ query: { limit, cursor, ...filter } }, { api }) => ({
      status: 200,
      json: await api.payments.page(filter, { limit, cursor }),
    }),
  }),
  route({
    method: "GET",
    path: "/api/v1/payments/in-flight",
    access: "viewer",
    summary: "List the payments in flight, except those whose call is queued or has failed",
    isHeavy: true,
    query: inFlightQuery,
    answers: {
      200: {
        description: "A page of call ids, by the time of the next check.",
        schema: InFlightPage,
      },
    },
    answer: async ({ query }, { api }) => ({ status: 200, json: await api.payments.inFlight(query) }),
  }),
  route({
    method: "GET",
    path: "/api/v1/payments/spent-elsewhere",
    access: "viewer",
    summary: "List payments that were refused as already spent, with what the chain shows",
    isHeavy: true,
    query: spentQuery,
    answers: { 200: { description: "A page of payments, newest first.", schema: SpentElsewherePage } },
    problems: ["token.unconfigured", "start.config_invalid"],
    answer: async ({ query }, { api }) => ({ status: 200, json: await api.payments.spentElsewhere(query) }),
  }),
  route({
    method: "GET",
    path: PAYMENT,
    access: "viewer",
    summary: "Show a payment: terms, settlement, evidence in sentences, and possible actions",
    params: callParams,
    answers: { 200: { description: "The payment.", schema: PaymentDetail } },
    problems: ["payment.unknown"],
    answer: async ({ params }, { api }) => ({ status: 200, json: await api.payments.show(params.call_id) }),
  }),
  route({
    method: "POST",
    path: `${PAYMENT}/resolve`,
    access: "operator",
    summary: "Resolve a payment in review, acknowledge a disputed one, or drop the body of an open one",
    params: callParams,
    body: Decision,
    answers: { 204: { description: "The decision is recorded." } },
    audit: ["settle", "void", "acknowledge", "drop"],
    problems: [
      ...(["payment.unknown", "payment.undecidable", "payment.not_shown", "payment.transfer_taken"] as const),
      ...(["token.unconfigured", "start.config_invalid", "payment.unavailable"] as const),
    ],
    async answer({ params, body }, { api }) {
      await api.payments.resolve(params.call_id, body);
      return { status: 204 };
    },
  }),
  route({
    method: "POST",
    path: `${PAYMENT}/reconcile`,
    access: "operator",
    summary: "Reconcile a payment: have a gateway check it now, and wait for the outcome",
    params: callParams,
    /** For how long it is waited. */
    body: z.strictObject({ wait_ms: z.int().min(0).max(30_000).default(10_000) }),
    answers: { 200: { description: "The outcome. The payment may be unknown.", schema: Reconciled } },
    audit: ["reconcile"],
    answer: async ({ params, body }, { api }) => ({
      status: 200,
      json: await api.payments.reconcile(params.call_id, body.wait_ms),
    }),
  }),
];
