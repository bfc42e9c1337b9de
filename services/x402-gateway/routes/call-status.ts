import { AppError } from "../../../shared/errors/app-error.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";

/**
 * GET /x402/calls/{call_id}: the state of a paid call, and since when; and the transaction that has paid it back. It tells nothing more,
 * because anybody can work the id of a settled payment out from the chain.
 */
export async function readCallStatus(journal: PaymentJournal, callId: string) {
  const payment = await journal.look(callId);
  if (payment === undefined) {
    throw new AppError("request.not_found", { reason: `no payment ${callId}`, publicDetail: "no such call" });
  }
  return {
    call_id: callId,
    state: payment.state.toLowerCase(),
    accepted_at: payment.claimedAt,
    changed_at: payment.changedAt,
    ...(payment.refunded && { refund_transaction: payment.refunded.transaction }),
  };
}
