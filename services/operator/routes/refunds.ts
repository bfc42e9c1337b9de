import { z } from "zod";
import { AppError } from "../../../shared/errors/app-error.ts";
import { ExportOrder, RefundExportView, RefundPage } from "../../../shared/operator/refunds.ts";
import { EXPORT_ID } from "../../../shared/payments/refund-export.ts";
import { callParams, page, reason } from "../parameters.ts";
import { type Route, route } from "../route.ts";

const EXPORTS = "/api/v1/payments/refunds/exports";

/** As `postern payments refund-list` and `refund-withdraw`; `refund-check` is in money-runs.ts. */
export const refundRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/api/v1/payments/refunds",
    access: "viewer",
    summary:
      "List payments whose call failed or was discarded, and those whose refund is exported, the newest first",
    isHeavy: true,
    query: z.strictObject(page),
    answers: { 200: { description: "A page of them", schema: RefundPage } },
    answer: async ({ query }, { api }) => ({ status: 200, json: await api.refunds.page(query) }),
  }),
  route({
    method: "POST",
    path: EXPORTS,
    access: "operator",
    summary: "Export refunds for a multisig; an exported call never runs again",
    isHeavy: true,
    body: ExportOrder.extend({ reason }),
    answers: {
      201: {
        description: "The export, with those that were still to be paid back",
        schema: RefundExportView,
      },
    },
    problems: ["payment.undecidable", "token.unconfigured", "start.config_invalid", "payment.unavailable"],
    async answer({ body: { reason: why, ...order } }, { api }) {
      const made = await api.refunds.export(order, why);
      if (made === undefined)
        throw AppError.public(
          "payment.undecidable",
          "none of these is to be paid back; nothing was exported",
        );
      return { status: 201, json: made, headers: { Location: `${EXPORTS}/${made.id}` } };
    },
  }),
  route({
    method: "GET",
    path: `${EXPORTS}/{export_id}`,
    access: "viewer",
    summary: "Show an export as it was made, and the state of its payments now",
    params: z.strictObject({ export_id: z.string().regex(EXPORT_ID) }),
    answers: { 200: { description: "The export", schema: RefundExportView } },
    problems: ["refund.unknown"],
    answer: async ({ params }, { api }) => ({
      status: 200,
      json: await api.refunds.show(params.export_id),
    }),
  }),
  route({
    method: "POST",
    path: "/api/v1/payments/{call_id}/withdraw-refund",
    access: "operator",
    summary: "End a pending refund whose call the runner has taken after its export",
    params: callParams,
    body: z.strictObject({ reason }),
    answers: { 204: { description: "Its call counts as given to the runner" } },
    problems: ["payment.unknown", "payment.undecidable"],
    async answer({ params, body }, { api }) {
      await api.refunds.withdraw(params.call_id, body.reason);
      return { status: 204 };
    },
  }),
];
