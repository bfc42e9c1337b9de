import type { IncomingMessage } from "node:http";
import { AppError } from "../../../shared/errors/app-error.ts";
import { type Proves, toProvenStatus } from "../../../shared/gateway/ask-result.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Payment } from "../../../shared/payments/payment.ts";
import type { Results } from "../../../shared/results/store.ts";

type Deps = {
  journal: Pick<PaymentJournal, "look">;
  results: Pick<Results, "status">;
  proves: Proves;
};

/**
 * GET /x402/calls/{call_id}: the state of a paid call, and the transaction that has paid it back, which the chain shows anyway. Anybody can
 * work the id of a settled payment out from the chain, so the rest is for who has proven a right to the result.
 */
export function createCallStatus({ journal, results, proves }: Deps) {
  async function provenStatus({ id, claimedAt, changedAt }: Payment): Promise<object> {
    const status = await results.status(id);
    return { accepted_at: claimedAt, changed_at: changedAt, ...(status && toProvenStatus(status)) };
  }

  return async function callStatusOf(req: IncomingMessage, callId: string): Promise<object> {
    const isProven = await proves(req, callId);
    const payment = await journal.look(callId);
    if (payment === undefined)
      throw new AppError("request.not_found", {
        reason: `no payment ${callId}`,
        publicDetail: "no such call",
      });
    return {
      call_id: callId,
      state: payment.state.toLowerCase(),
      ...(payment.refunded && { refund_transaction: payment.refunded.transaction }),
      ...(isProven && (await provenStatus(payment))),
    };
  };
}
