import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError, toAppError } from "../../../shared/errors/app-error.ts";
import type { Proves } from "../../../shared/gateway/ask-result.ts";
import { sendResult } from "../../../shared/gateway/send-result.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Results } from "../../../shared/results/store.ts";
import type { SignIn } from "../sign-in/sign-in.ts";

type Deps = {
  journal: Pick<PaymentJournal, "look">;
  results: Pick<Results, "read">;
  provesByToken: Proves;
  signIn: Pick<SignIn, "assertPayer" | "ask">;
};

/**
 * GET /x402/calls/{call_id}/result: what the runner answered. Nothing is read before the right to it is proven. Who has proven nothing is
 * asked to sign in, alike for every call id, so that nobody learns which there are.
 */
export function createCallResult({ journal, results, provesByToken, signIn }: Deps) {
  return async function answerResult(
    req: IncomingMessage,
    res: ServerResponse,
    callId: string,
  ): Promise<void> {
    try {
      if (!(await provesByToken(req, callId))) await signIn.assertPayer(req, callId);
    } catch (thrown) {
      const why = toAppError(thrown);
      if (why.code !== "result.sign_in_required") throw thrown;
      return signIn.ask(req, res, callId, why);
    }
    // The token of a webhook's call is as good, but its result is asked for elsewhere.
    if ((await journal.look(callId)) === undefined)
      throw AppError.public("request.not_found", "no such call");
    sendResult(req, res, await results.read(callId));
  };
}
