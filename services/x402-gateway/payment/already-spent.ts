import type { JobIds } from "../../../shared/call/job-ids.ts";
import type { SpentElsewhereList } from "../../../shared/payments/spent-elsewhere.ts";
import { AppError, messageOf } from "../../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { inAcceptedToken, type SignedPayment } from "./header.ts";

/**
 * Error of a payment whose authorization was used or cancelled before the gateway received it. `block` is the newest block at the
 * time of the check, so the use or the cancellation is in that block or an earlier one.
 */
export class AlreadySpent extends AppError {
  readonly block: bigint;

  constructor(block: bigint) {
    super("payment.spent_elsewhere", {
      reason: "the token says that the authorization is used or cancelled",
      publicDetail:
        "The nonce of this payment was used or cancelled before the gateway received it. Sign a new payment.",
    });
    this.block = block;
  }
}

type Deps = { spentElsewhere: SpentElsewhereList; clock: Clock; log: Logger };

export type NoteSpent = ReturnType<typeof createNoteSpent>;

/**
 * Creates the function that records payments that were refused as `AlreadySpent`, for the operator. The payer may have paid
 * nevertheless, if someone other than this gateway sent the payment to the chain.
 */
export function createNoteSpent({ spentElsewhere, clock, log }: Deps) {
  /**
   * Recorded refusals. `Chains` caches a refusal and throws the same object for later requests with the same payment, which must
   * not be recorded again.
   */
  const noted = new WeakSet<AlreadySpent>();

  return async function noteSpent(signed: SignedPayment, ids: JobIds, refusal: AlreadySpent): Promise<void> {
    if (noted.has(refusal)) return;
    noted.add(refusal);
    const { callId: id, payer, decoded, token } = inAcceptedToken(signed);
    const { nonce, value, validAfter, validBefore } = decoded.authorization;
    const { network, asset, symbol, payTo: pay_to } = token;
    await spentElsewhere
      .note({
        id,
        at: clock(),
        service_id: ids.serviceId,
        job_index: ids.jobIndex,
        network,
        asset,
        symbol,
        pay_to,
        payer,
        nonce: nonce.toLowerCase(),
        transfer_method: token.method.name,
        amount: String(value),
        valid_after: String(validAfter),
        valid_before: String(validBefore),
        block: String(refusal.block),
      })
      .catch((error) => log.warn("payment.record_failed", { callId: id, reason: messageOf(error) }));
  };
}
