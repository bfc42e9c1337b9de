import type { IncomingMessage, ServerResponse } from "node:http";
import type { Results } from "../../../shared/call/results/store.ts";
import { sendBody } from "../../../shared/http/answer.ts";
import type { Route } from "../../../shared/http/router.ts";
import { toResultError } from "../../../shared/ingress/send-result.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import { hasSettlement } from "../../../shared/payments/payment.ts";
import { RECEIPT_KEYS_PATH } from "../../../shared/payments/receipt.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { isEnded, type Receipts } from "../payment/receipts.ts";
import type { SignIn } from "../sign-in/sign-in.ts";

const MAX_AGE_SECS = 300;

type Deps = {
  receipts: Receipts;
  journal: Pick<PaymentJournal, "findWithoutCall">;
  results: Pick<Results, "read">;
  signIn: SignIn;
};

/** Creates two routes: the public keys of receipts, as a JSON Web Key Set (RFC 7517, RFC 8037), and the receipt for a call's result. */
export function receiptRoutes({ receipts, journal, results, signIn }: Deps): Route[] {
  const jwks = JSON.stringify(receipts.jwks);
  const caching = { "Cache-Control": `public, max-age=${MAX_AGE_SECS}` };

  /**
   * Answers with the receipt. The client's token or sign-in is checked before the payment is read. So a client without either
   * does not learn whether the call exists.
   */
  async function answerReceipt(req: IncomingMessage, res: ServerResponse, callId: string): Promise<void> {
    const refusal = await signIn.refusalOf(req, callId);
    if (refusal !== undefined) return signIn.require(req, res, callId, refusal);
    const payment = await journal.findWithoutCall(callId);
    if (payment === undefined) throw AppError.public("request.not_found", "no such call");
    const read = await results.read(callId);
    if (!isEnded(read)) throw toResultError(read);
    if (!hasSettlement(payment)) throw toResultError({ kind: "none kept" });
    sendBody(res, "application/json", JSON.stringify(receipts.ofResult(payment, read)));
  }

  return [
    {
      method: "GET",
      path: RECEIPT_KEYS_PATH,
      serve: (_req, res) => sendBody(res, "application/jwk-set+json; charset=utf-8", jwks, caching),
    },
    {
      method: "GET",
      path: "/x402/calls/{call_id}/receipt",
      serve: (req, res, { call_id: callId = "" }) => answerReceipt(req, res, callId),
    },
  ];
}
