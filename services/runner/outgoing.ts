import { CALL_ID } from "../../shared/call/call-id.ts";
import { problemBody } from "../../shared/http/problem.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { CODES } from "../../shared/platform/errors/codes.ts";
import type { Outgoing } from "./delivery-store.ts";
import type { HttpAnswer } from "./router.ts";

/** Why a run of a long job has failed. */
export type RunFailure = {
  error: AppError;
  /** What the handler answered, if it did. */
  answer?: HttpAnswer;
};

/** As a producer reads the answer of a short job: with any other 4xx the call fails at once. */
const TRIED_AGAIN = [408, 409, 425, 429];

export function answeredFailure(answer: HttpAnswer): RunFailure {
  const reason = `the job answered ${answer.status}`;
  return { answer, error: new AppError("runner.handler_failed", { reason }) };
}

/** Whether the job itself says that another run would not help. */
export function isRefusal({ answer }: RunFailure): boolean {
  return (
    answer !== undefined &&
    answer.status >= 400 &&
    answer.status < 500 &&
    !TRIED_AGAIN.includes(answer.status)
  );
}

export function statusOf({ error, answer }: RunFailure): number {
  return answer !== undefined && answer.status >= 400 ? answer.status : CODES[error.code].status;
}

/** Says what is delivered of a long call that has ended; undefined if nothing is, because no gateway knows a call with such a key. */
export type ToOutgoing = (callId: string, ended: HttpAnswer | RunFailure) => Outgoing | undefined;

export function createToOutgoing(resultBytesMax: number): ToOutgoing {
  const bounded = ({ status, contentType, body }: HttpAnswer): Outgoing => ({
    status,
    contentType,
    body: body.length > resultBytesMax ? "too long" : body,
  });
  return (callId, ended) => {
    if (!CALL_ID.test(callId)) return undefined;
    return bounded("error" in ended ? toProblem(ended) : ended);
  };
}

/** What a handler answered, else a problem document with nothing in it that the handler threw. */
function toProblem(failure: RunFailure): HttpAnswer {
  const { error, answer } = failure;
  if (answer !== undefined && answer.status >= 400) return answer;
  const body = Buffer.from(problemBody(error.code, error.publicDetail));
  return { status: statusOf(failure), contentType: "application/problem+json", body };
}
