import type { JobIds } from "../../../shared/job-call/job-ids.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Payment } from "../../../shared/payments/payment.ts";
import type { KnownPayment } from "../payment/outcome.ts";
import type { SignedPayment } from "../payment/signer.ts";
import { jobPath } from "../route.ts";
import type { ReadBody } from "./read-once.ts";

type Deps = { journal: PaymentJournal; knownPayment: KnownPayment };

/** A paid request, with its payer recovered and its body still to be read. */
export type Arrival = { ids: JobIds; signed: SignedPayment; readBody: ReadBody };

/**
 * The call that this payment has already, or that was bought under its payment identifier. Throws `payment.conflict` and
 * `payment.identifier_conflict` where it was bought with another request, and `queue.unavailable`.
 */
export async function findKnown(deps: Deps, { ids, signed, readBody }: Arrival): Promise<string | undefined> {
  const known = await lookUp(deps.journal, signed);
  if (known === undefined) return undefined;
  const conflict = known.id === signed.callId ? "payment.conflict" : "payment.identifier_conflict";
  await deps.knownPayment.assertSame(known, { route: jobPath(ids), readBody, conflict });
  return known.id;
}

async function lookUp(
  journal: PaymentJournal,
  { callId, payer, decoded }: SignedPayment,
): Promise<Payment | undefined> {
  const known = await journal.look(callId);
  const identifier = decoded.version === 2 ? decoded.identifier : undefined;
  if (known !== undefined || identifier === undefined) return known;
  const sameRequest = await journal.findIdentified(payer, identifier);
  return sameRequest === undefined ? undefined : journal.look(sameRequest);
}
