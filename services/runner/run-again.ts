import type { IncomingMessage, ServerResponse } from "node:http";
import { type AppError, messageOf, toAppError } from "../../shared/errors/app-error.ts";
import { CODES } from "../../shared/errors/codes.ts";
import { readBody } from "../../shared/http/body.ts";
import { sendProblem } from "../../shared/http/problem.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { type LongStore, storedAnswer } from "./long-store.ts";
import { authenticateBare, type OfferRules } from "./offer.ts";
import { draining, notFailed, unavailable, unknownCall } from "./refusals.ts";
import { sendAnswer } from "./send-answer.ts";

type Deps = {
  rules: OfferRules;
  longStore: LongStore;
  /** A long call waits to be taken. */
  wake: () => void;
  isDraining: () => boolean;
  log: Logger;
};

/**
 * POST /calls/{id}/run: gives a FAILED long call fresh attempts. Its sender was told that the call is in good hands and
 * offers it no more, so this is how an operator has it run once the cause is gone.
 */
export function createRunAgain({ rules, longStore, wake, isDraining, log }: Deps) {
  async function store(callId: string): Promise<void> {
    const found = await longStore.again(callId).catch((cause: unknown) => {
      throw unavailable(messageOf(cause), cause);
    });
    if (found === "UNKNOWN") throw unknownCall(callId);
    if (found !== "STORED") throw notFailed(callId, found);
  }

  return async function runAgain(req: IncomingMessage, res: ServerResponse, callId: string): Promise<void> {
    try {
      if (isDraining()) throw draining();
      authenticateBare(req, await readBody(req, res, 0), { ...rules, callId });
      await store(callId);
      wake();
      sendAnswer(res, storedAnswer(callId));
      log.info("job.run_again", { callId });
    } catch (thrown) {
      const error = toAppError(thrown);
      sendProblem(req, res, error);
      logRefusal(log, error, callId);
    }
  };
}

function logRefusal(log: Logger, { code, message: reason }: AppError, callId: string): void {
  log.warn("job.refused", { callId, status: CODES[code].status, code, reason });
}
