import type { IncomingMessage, ServerResponse } from "node:http";
import type { ResultTokens } from "../../../shared/call/results/token.ts";
import type { ResultAccess } from "../../../shared/ingress/ask-result.ts";
import type { AwaitResults } from "../../../shared/ingress/await-result.ts";
import type { RefusalOf } from "../../../shared/ingress/call-routes.ts";
import { sendResult } from "../../../shared/ingress/send-result.ts";
import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { answerPaid, type PaidCall, paidHeaders } from "./outcome.ts";
import { preferredWaitSecs } from "./prefer-header.ts";

type Deps = {
  tokens: ResultTokens;
  refusalOf: RefusalOf;
  statusUrlOf: (callId: string) => string;
  waits: Pick<AwaitResults, "begin">;
  /** How long a client may wait at most. */
  waitMsMax: number;
  clock: Clock;
};

/** A request that is answered, and when it began. */
type Exchange = { req: IncomingMessage; res: ServerResponse; startedAt: number };

export type PayersResult = ReturnType<typeof createPayersResult>;

/** What a paid request's answer has of the call's result: the way to it, or the result itself. */
export function createPayersResult({ tokens, refusalOf, statusUrlOf, waits, waitMsMax, clock }: Deps) {
  const accessOf = (callId: string): ResultAccess => ({
    result_token: tokens.of(callId),
    result_url: `${statusUrlOf(callId)}/result`,
  });

  return {
    /** The way to the result of a call, for who has a right to it. */
    accessOf,

    /**
     * The way to the result, for the request that has claimed the payment. Who repeats a payment may have rebuilt it from the chain: that
     * proves no right to the result. The 202 does not wait until a proof can be checked.
     */
    async accessFor(req: IncomingMessage, paid: PaidCall): Promise<ResultAccess | undefined> {
      const { id, keepsResult, isFirst } = paid;
      if (!keepsResult) return undefined;
      const refusal = isFirst ? undefined : await refusalOf(req, id).catch(toAppError);
      return refusal === undefined ? accessOf(id) : undefined;
    },

    /**
     * Answers with what the call comes to, if the client prefers to wait for it (`Prefer: wait`, RFC 7240) and may have it. False if the
     * request is to be answered now. The time counts from when the request began. What is held meanwhile is neither payment nor body.
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
          if (outcome === undefined) answerPaid(res, paid, statusUrlOf(paid.id), access);
          else sendResult(res.req, res, outcome, headersOf(paid, access, secs));
        },
      });
    },
  };
}

function headersOf(paid: PaidCall, access: ResultAccess, secs: number): Record<string, string> {
  return {
    ...paidHeaders(paid),
    "Preference-Applied": `wait=${secs}`,
    // What is sent is what can be asked for there (RFC 9110, section 8.7).
    "Content-Location": access.result_url,
  };
}
