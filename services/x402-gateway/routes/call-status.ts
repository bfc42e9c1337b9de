import type { ServerResponse } from "node:http";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import { sendJson } from "../send-json.ts";

/**
 * GET /x402/calls/{call_id}: the state of a paid call, and since when. Nothing more: once a payment has settled, anybody
 * can work its id out from the chain.
 */
export async function answerCallState(
  res: ServerResponse,
  journal: PaymentJournal,
  callId: string,
): Promise<void> {
  const payment = await journal.look(callId);
  if (payment === undefined) {
    throw new AppError("request.not_found", { reason: `no payment ${callId}`, publicDetail: "no such call" });
  }
  sendJson(res, 200, {
    call_id: callId,
    state: payment.state.toLowerCase(),
    accepted_at: payment.claimedAt,
    changed_at: payment.changedAt,
  });
}
