import { AppError } from "../../../shared/errors/app-error.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import type { Agreed } from "../payment/agree.ts";
import type { TakenPayment } from "../payment/signer.ts";
import type { Facilitators } from "./pool.ts";

type Deps = { facilitators: Facilitators; log: Logger };

/**
 * Asks a facilitator whether the payment could settle now, and answers which one said so: it is the one to settle.
 * Throws `payment.rejected`, and `payment.unavailable` where none answers or the offer itself is at fault.
 */
export async function verifyPayment(
  { facilitators, log }: Deps,
  { decoded, token }: TakenPayment,
  { requirements }: Agreed,
): Promise<string> {
  const { version } = decoded;
  const network = version === 1 ? decoded.network : token.network;
  const request = { x402Version: version, paymentPayload: decoded.raw, paymentRequirements: requirements };
  const { verified, url } = await facilitators.verify(request, { scheme: "exact", network });
  if (verified.kind === "valid") return url;
  const { reason, fault } = verified;
  if (fault === "payer")
    throw new AppError("payment.rejected", { reason, publicDetail: `the facilitator says: ${reason}` });
  log.error("offer.faulty", { network: token.network, asset: token.asset, symbol: token.symbol, reason });
  throw new AppError("payment.unavailable", {
    reason: `the facilitator refuses the offer itself: ${reason}; see accepted_tokens in x402.toml`,
    publicDetail: "The offer is at fault, not the payment; the operator has been told.",
    retryAfterMs: 60_000,
  });
}
