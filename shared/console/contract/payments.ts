import { z } from "zod";
import { EXPORT_ID, NOT_AN_EXPORT_ID } from "../../payments/refund-export.ts";
import { PaymentDetail } from "../payment-view.ts";
import { Decision, PaymentFilter, PaymentPage } from "../payments.ts";
import { InFlightPage, Reconciled } from "../reconcile.ts";
import { ExportOrder, RefundExportView, RefundPage } from "../refunds.ts";
import { SpentElsewherePage } from "../spent-elsewhere.ts";
import { reason } from "../view.ts";
import type { Table } from "./operation.ts";
import { callParams, flag, page, reasonBody, whole } from "./parameters.ts";

export const PAYMENTS = {
  listPayments: {
    method: "GET",
    path: "/api/v1/payments",
    role: "viewer",
    summary: "List payments, newest first",
    isHeavy: true,
    query: PaymentFilter.extend({
      open: flag.optional(),
      disputed: flag.optional(),
      acknowledged: flag.optional(),
      ...page,
    }),
    answer: PaymentPage,
    answerText: "A page of payments.",
  },
  listPaymentsInFlight: {
    method: "GET",
    path: "/api/v1/payments/in-flight",
    role: "viewer",
    summary:
      "List the payments whose outcome is not known, and those of ended calls that the chain has not confirmed yet",
    isHeavy: true,
    /** By default a page is as long as permitted, because it has only ids. */
    query: z.strictObject({ ...page, limit: whole({ min: 1, max: 500 }).default(500) }),
    answer: InFlightPage,
    answerText: "A page of call ids, by the time of the next check.",
  },
  listSpentElsewhere: {
    method: "GET",
    path: "/api/v1/payments/spent-elsewhere",
    role: "viewer",
    summary: "List payments that were refused as already spent, with what the chain shows",
    isHeavy: true,
    /** A page is short, because showing each payment takes several requests to a node. */
    query: z.strictObject({ ...page, limit: whole({ min: 1, max: 50 }).default(20) }),
    answer: SpentElsewherePage,
    answerText: "A page of payments, newest first.",
    problems: ["token.unconfigured", "start.config_invalid"],
  },
  getPayment: {
    method: "GET",
    path: "/api/v1/payments/{call_id}",
    role: "viewer",
    summary: "Show a payment: terms, settlement, evidence in sentences, and possible actions",
    params: callParams,
    answer: PaymentDetail,
    answerText: "The payment.",
    problems: ["payment.unknown"],
  },
  resolvePayment: {
    method: "POST",
    path: "/api/v1/payments/{call_id}/resolve",
    role: "operator",
    summary: "Resolve a payment in review, acknowledge a disputed one, or drop the body of an open one",
    params: callParams,
    body: Decision,
    answer: PaymentDetail,
    answerText: "The payment, after the decision.",
    audit: ["settle", "void", "acknowledge", "drop"],
    problems: [
      ...(["payment.unknown", "payment.undecidable", "payment.not_shown", "payment.transfer_taken"] as const),
      ...(["token.unconfigured", "start.config_invalid", "payment.unavailable"] as const),
    ],
  },
  reconcilePayment: {
    method: "POST",
    path: "/api/v1/payments/{call_id}/reconcile",
    role: "operator",
    summary: "Reconcile a payment: have a gateway check it now, and wait for the outcome",
    params: callParams,
    body: z.strictObject({ wait_ms: z.int().min(0).max(30_000).default(10_000) }),
    answer: Reconciled,
    answerText: "The outcome. The payment may be unknown.",
    audit: ["reconcile"],
  },
  listRefunds: {
    method: "GET",
    path: "/api/v1/payments/refunds",
    role: "viewer",
    summary: "List payments with a failed or discarded call, and those with an exported refund, newest first",
    isHeavy: true,
    query: z.strictObject(page),
    answer: RefundPage,
    answerText: "A page of payments.",
  },
  getRefundReport: {
    method: "GET",
    path: "/api/v1/payments/refunds/report",
    role: "viewer",
    summary: "Get all of these payments as a CSV file for bookkeeping, without exporting a refund",
    isHeavy: true,
    file: "text/csv; charset=utf-8; header=present",
    answerText: "One line for each payment, unordered.",
    problems: ["refund.report_too_large"],
  },
  exportRefunds: {
    method: "POST",
    path: "/api/v1/payments/refunds/exports",
    role: "operator",
    summary: "Export due refunds for a multisig; a call whose refund is exported never runs again",
    isHeavy: true,
    body: ExportOrder.extend({ reason }),
    answer: RefundExportView,
    status: 201,
    location: "/api/v1/payments/refunds/exports/{id}",
    answerText: "The export, with the payments whose refund was due.",
    audit: ["refund"],
    problems: ["payment.undecidable", "token.unconfigured", "start.config_invalid", "payment.unavailable"],
  },
  getRefundExport: {
    method: "GET",
    path: "/api/v1/payments/refunds/exports/{export_id}",
    role: "viewer",
    summary: "Show an export, and the current state of its payments",
    params: z.strictObject({ export_id: z.string().regex(EXPORT_ID, NOT_AN_EXPORT_ID) }),
    answer: RefundExportView,
    answerText: "The export.",
    problems: ["refund.unknown"],
  },
  withdrawRefund: {
    method: "POST",
    path: "/api/v1/payments/{call_id}/withdraw-refund",
    role: "operator",
    summary: "Withdraw an exported refund whose call was injected after the export",
    params: callParams,
    body: reasonBody,
    answer: PaymentDetail,
    answerText: "The payment, whose refund is withdrawn. Its call counts as injected.",
    audit: ["withdraw"],
    problems: ["payment.unknown", "payment.undecidable"],
  },
} satisfies Table;
