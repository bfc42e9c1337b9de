import { toAppError } from "../../shared/errors/app-error.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { CallStore } from "./call-store.ts";
import type { Execute } from "./execute.ts";
import { type Forget, toFailure } from "./forget.ts";
import type { Offer } from "./offer.ts";
import { type HttpAnswer, isSuccess } from "./router.ts";
import { untilStored } from "./until-stored.ts";

type Deps = {
  calls: CallStore;
  execute: Execute;
  forget: Forget;
  ended: AbortSignal;
  log: Logger;
};

/**
 * Runs a begun call to its end. A 2xx is on disk when this resolves, and is the answer for ever; another answer, and what
 * the handler throws, leaves the call to be run again.
 */
export function createRunShort({ calls, execute, forget, ended, log }: Deps) {
  return async function runShort(offer: Offer): Promise<HttpAnswer> {
    const { callId } = offer;
    let answer: HttpAnswer;
    try {
      answer = await execute(offer.job, offer);
    } catch (thrown) {
      const error = toAppError(thrown);
      await forget(callId, toFailure(error));
      throw error;
    }
    if (!isSuccess(answer)) {
      const { status } = answer;
      await forget(callId, { code: "runner.handler_failed", reason: `the job answered ${status}`, status });
      return answer;
    }
    const first = await untilStored(() => calls.finish(offer, answer), { log, callId, signal: ended });
    failpoint("runner.after_remembered");
    return first;
  };
}
