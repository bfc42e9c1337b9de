import { z } from "zod";
import { ExportOrder, RefundExportView, RefundPage } from "../../../shared/console/refunds.ts";
import { EXPORT_ID } from "../../../shared/payments/refund-export.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { createConcurrencyLimit } from "../../../shared/platform/lifecycle/concurrency-limit.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { callParams, page, reason } from "../parameters.ts";
import { type Route, route } from "../route.ts";

const CSV = "text/csv";

/** A report is whole in memory while it is sent. `postern payments refund-list --report` at Redis has no such limit. */
const REPORT_BYTES_MAX = 32 * 1024 * 1024;

const reports = createConcurrencyLimit({ max: 1, what: "reports of refunds", code: "request.rate_limited" });

/** Whole before its first byte is sent: what fails meanwhile is then a refusal, and nobody takes a part for all. */
async function wholeReport(pieces: AsyncIterable<string>): Promise<Buffer> {
  const whole: Buffer[] = [];
  let bytes = 0;
  for await (const piece of pieces) {
    whole.push(Buffer.from(piece));
    bytes += Buffer.byteLength(piece);
    if (bytes > REPORT_BYTES_MAX) throw reportTooLarge();
  }
  return Buffer.concat(whole);
}

function reportTooLarge(): AppError {
  const detail =
    "the report is larger than 32 MiB; run postern payments refund-list --report without --operator";
  return AppError.public("refund.report_too_large", detail);
}

const EXPORTS = "/api/v1/payments/refunds/exports";

/** As `postern payments refund-list` and `refund-withdraw`; `refund-check` is in money-runs.ts. */
export const refundRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/api/v1/payments/refunds",
    access: "viewer",
    summary: "List payments with a failed or discarded call, and those with an exported refund, newest first",
    isHeavy: true,
    query: z.strictObject(page),
    answers: { 200: { description: "A page of payments.", schema: RefundPage } },
    answer: async ({ query }, { api }) => ({ status: 200, json: await api.refunds.page(query) }),
  }),
  route({
    method: "GET",
    path: "/api/v1/payments/refunds/report",
    access: "viewer",
    summary: "Get all of these payments as a CSV file for bookkeeping, without exporting a refund",
    isHeavy: true,
    answers: { 200: { description: "One line for each payment, unordered.", contentType: CSV } },
    problems: ["refund.report_too_large"],
    async answer(_asked, { api, signal }) {
      const name = `refunds-report-${toIso(systemClock()).slice(0, 10)}.csv`;
      const bytes = await reports.within(() => wholeReport(api.refunds.report(signal)));
      return {
        status: 200,
        bytes,
        contentType: `${CSV}; charset=utf-8; header=present`,
        headers: { "Content-Disposition": `attachment; filename="${name}"` },
      };
    },
  }),
  route({
    method: "POST",
    path: EXPORTS,
    access: "operator",
    summary: "Export due refunds for a multisig; a call whose refund is exported never runs again",
    isHeavy: true,
    body: ExportOrder.extend({ reason }),
    answers: {
      201: {
        description: "The export, with the payments whose refund was due.",
        schema: RefundExportView,
      },
    },
    audit: ["refund"],
    problems: ["payment.undecidable", "token.unconfigured", "start.config_invalid", "payment.unavailable"],
    async answer({ body: { reason: why, ...order } }, { api }) {
      const made = await api.refunds.export(order, why);
      if (made === undefined)
        throw AppError.public(
          "payment.undecidable",
          "no refund is due for these payments; nothing was exported",
        );
      return { status: 201, json: made, headers: { Location: `${EXPORTS}/${made.id}` } };
    },
  }),
  route({
    method: "GET",
    path: `${EXPORTS}/{export_id}`,
    access: "viewer",
    summary: "Show an export, and the current state of its payments",
    params: z.strictObject({ export_id: z.string().regex(EXPORT_ID) }),
    answers: { 200: { description: "The export.", schema: RefundExportView } },
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
    summary: "Withdraw an exported refund whose call was injected after the export",
    params: callParams,
    body: z.strictObject({ reason }),
    answers: { 204: { description: "The refund is withdrawn, and its call counts as injected." } },
    audit: ["withdraw"],
    problems: ["payment.unknown", "payment.undecidable"],
    async answer({ params, body }, { api }) {
      await api.refunds.withdraw(params.call_id, body.reason);
      return { status: 204 };
    },
  }),
];
