import type { IncomingMessage, ServerResponse } from "node:http";
import type { ResultTokens } from "../../../shared/call/results/token.ts";
import type { ResultAccess } from "../../../shared/ingress/ask-result.ts";
import type { AwaitResults } from "../../../shared/ingress/await-result.ts";
import type { RefusalOf } from "../../../shared/ingress/call-routes.ts";
import { sendResult } from "../../../shared/ingress/send-result.ts";
import type { SignedReceipt } from "../../../shared/payments/receipt.ts";
import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { answerPaid, type PaidCall, paidHeaders } from "./outcome.ts";
import { preferredWaitSecs } from "./prefer-header.ts";
import type { Receipts } from "./receipts.ts";

type Deps = {
  tokens: ResultTokens;
  refusalOf: RefusalOf;
  statusUrlOf: (callId: string) => string;
  waits: Pick<AwaitResults, "begin">;
  /** Maximum time for which a client may wait for a result. */
  waitMsMax: number;
  /** Undefined if the gateway signs no receipts. */
  receipts: Receipts | undefined;
  clock: Clock;
};

/** A request to answer, and the time at which it began (unix ms). */
type Exchange = { req: IncomingMessage; res: ServerResponse; startedAt: number };

export type PayersResult = ReturnType<typeof createPayersResult>;

/**
 * Creates the functions that give a payer the call's result. The answer to a paid request has a URL and a token for the result,
 * or is the result itself.
 */
export function createPayersResult(deps: Deps) {
  const { tokens, refusalOf, statusUrlOf, waits, waitMsMax, receipts, clock } = deps;
  const accessOf = (callId: string): ResultAccess => ({
    result_token: tokens.of(callId),
    result_url: `${statusUrlOf(callId)}/result`,
  });

  const answerNow = (res: ServerResponse, paid: PaidCall, access: ResultAccess | undefined): void =>
    answerPaid(res, paid, statusUrlOf(paid.id), access, receipts?.ofPayment(paid));

  return {
    answerNow,

    /** URL and token of a call's result. Only a client with a right to the result may get them. */
    accessOf,

    /**
     * Returns access to the result for the request that claimed the payment. A request that repeats a payment must also prove
     * that it comes from the payer, because any client can rebuild a payment from the chain. If that proof cannot be checked now,
     * the 202 is sent without access.
     */
    async accessFor(req: IncomingMessage, paid: PaidCall): Promise<ResultAccess | undefined> {
      const { id, keepsResult, isFirst } = paid;
      if (!keepsResult) return undefined;
      const refusal = isFirst ? undefined : await refusalOf(req, id).catch(toAppError);
      return refusal === undefined ? accessOf(id) : undefined;
    },

    /**
     * Answers with the result once the call has ended, if the client asks to wait (`Prefer: wait`, RFC 7240) and has access.
     * Returns false if the request must be answered at once. The waiting time counts from the start of the request. During the
     * wait, neither the payment nor the request's body is kept in memory.
     */
    answerLater(
      { req, res, startedAt }: Exchange,
      paid: PaidCall,
      access: ResultAccess | undefined,
    ): boolean {
      const prefer = req.headers["prefer"];
      if (access === undefined || prefer === undefined) return false;
      const secs = preferredWaitSecs(String(prefer), waitMsMax / 1000);
      if (secs === undefined) return false;
      return waits.begin({
        res,
        callId: paid.id,
        ms: secs * 1000 - (clock() - startedAt),
        answer(outcome) {
          if (outcome === undefined) answerNow(res, paid, access);
          else sendResult(res.req, res, outcome, headersOf(paid, access, secs, receipts?.ofPayment(paid)));
        },
      });
    },
  };
}

function headersOf(
  paid: PaidCall,
  access: ResultAccess,
  secs: number,
  signedReceipt: SignedReceipt | undefined,
): Record<string, string> {
  return {
    ...paidHeaders(paid, signedReceipt),
    "Preference-Applied": `wait=${secs}`,
    // A GET of this URL returns the same answer (RFC 9110, section 8.7).
    "Content-Location": access.result_url,
  };
}
