import { CALL_ID } from "../../shared/call/call-id.ts";
import { problemBody } from "../../shared/http/problem.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { CODES } from "../../shared/platform/errors/codes.ts";
import type { Outgoing } from "./delivery-store.ts";
import type { HttpAnswer } from "./router.ts";

/** Failure of a run of a long job. */
export type RunFailure = {
  error: AppError;
  /** The answer of the handler, if there was one. */
  answer?: HttpAnswer;
};

/** Statuses below 500 after which a long job runs again. After any other 4xx, the call fails at once. */
const RETRIED_STATUSES = [408, 409, 425, 429];

export function answeredFailure(answer: HttpAnswer): RunFailure {
  const reason = `the job answered ${answer.status}`;
  return { answer, error: new AppError("runner.handler_failed", { reason }) };
}

/** Returns whether the job's answer says that another run would not help. */
export function isRefusal({ answer }: RunFailure): boolean {
  return (
    answer !== undefined &&
    answer.status >= 400 &&
    answer.status < 500 &&
    !RETRIED_STATUSES.includes(answer.status)
  );
}

export function statusOf({ error, answer }: RunFailure): number {
  return answer !== undefined && answer.status >= 400 ? answer.status : CODES[error.code].status;
}

/**
 * Builds the result of an ended long call for delivery. Undefined if the call's key is not a call id: its sender was not a
 * producer, so no gateway knows the call.
 */
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

/**
 * Returns the handler's answer if it is an error. Otherwise builds a problem document (RFC 9457). It does not have the text
 * of the handler's error, which may be internal.
 */
function toProblem(failure: RunFailure): HttpAnswer {
  const { error, answer } = failure;
  if (answer !== undefined && answer.status >= 400) return answer;
  const body = Buffer.from(problemBody(error.code, error.publicDetail));
  return { status: statusOf(failure), contentType: "application/problem+json", body };
}
