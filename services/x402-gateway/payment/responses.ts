import type { IncomingMessage, ServerResponse } from "node:http";
import { encodePaymentResponseHeader } from "@x402/core/http";
import type { Network } from "@x402/core/types";
import type { AppError } from "../../../shared/errors/app-error.ts";
import { CODES } from "../../../shared/errors/codes.ts";
import { COMMON_HEADERS, sendProblem } from "../../../shared/http/problem.ts";
import type { JobIds } from "../../../shared/job-call/job-ids.ts";
import type { PaymentTerms, Settlement } from "../../../shared/payments/payment.ts";
import type { Job } from "../catalog.ts";
import { CORS_HEADERS } from "../cors.ts";
import type { Challenge } from "../routes/challenge.ts";

/** A payment that has its call. */
export type Paid = {
  id: string;
  terms: PaymentTerms;
  settlement: Settlement;
  status: "accepted" | "failed" | "discarded";
  replayed: boolean;
  statusUrl: string;
};

/** 202: paid, and the call is on disk. The same payment gets the same answer whenever it comes again. */
export function answerPaid(res: ServerResponse, paid: Paid): void {
  const { id, terms, settlement, status, replayed, statusUrl } = paid;
  const body = JSON.stringify({
    status,
    call_id: id,
    receipt: toReceipt(terms, settlement),
    service_id: terms.service_id,
    job_index: terms.job_index,
    transaction: settlement.transaction,
    status_url: statusUrl,
  });
  const { transaction, network, payer } = settlement;
  const response = { success: true, transaction, network: network as Network, payer };
  res.writeHead(202, {
    ...COMMON_HEADERS,
    ...CORS_HEADERS,
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    [terms.x402_version === 1 ? "X-PAYMENT-RESPONSE" : "PAYMENT-RESPONSE"]:
      encodePaymentResponseHeader(response),
    ...(replayed && { "Idempotent-Replayed": "true" }),
  });
  res.end(body);
}

function toReceipt(terms: PaymentTerms, { transaction }: Settlement) {
  const { network, asset, symbol, amount, payer, pay_to, quote_digest } = terms;
  return { network, asset, symbol, amount, payer, pay_to, transaction, quote_digest };
}

type Refusing = {
  req: IncomingMessage;
  res: ServerResponse;
  ids?: JobIds | undefined;
  /** The job, if it is sold: a 402 offers it again. */
  job?: Job | undefined;
  /** Where a payment whose outcome is open can be followed. */
  statusUrl?: string | undefined;
};

/** A problem document, or a new challenge where what was sent cannot pay. */
export function answerRefused(
  challenge: Challenge,
  error: AppError,
  { req, res, job, ids, statusUrl }: Refusing,
): void {
  if (CODES[error.code].status === 402 && job !== undefined && job.prices.length > 0) {
    challenge.send(req, res, { job, why: { code: error.code, detail: error.publicDetail } });
    return;
  }
  sendProblem(req, res, {
    error,
    extra: {
      headers: { ...CORS_HEADERS, ...(statusUrl !== undefined && { Location: statusUrl }) },
      members: {
        ...(ids !== undefined && error.code.startsWith("job.") && toMembers(ids)),
        ...(statusUrl !== undefined && { status_url: statusUrl }),
      },
    },
  });
}

function toMembers({ serviceId, jobIndex }: JobIds) {
  return { service_id: serviceId, job_index: jobIndex };
}
