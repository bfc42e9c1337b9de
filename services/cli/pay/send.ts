import type { CODES, ErrorCode } from "../../../shared/platform/errors/codes.ts";
import { delay, systemClock } from "../../../shared/platform/time/clock.ts";
import { type Answer, type Post, post, reasonOf, textIn, wordsOf } from "../http.ts";
import { CALL_FAILED } from "../result/fetch.ts";
import { PayFailure } from "./purchase.ts";

/** Prints a step of the purchase: as one JSON object with -o json, and otherwise as text for people. */
export type ReportStep = (step: string, fields: object, text: string) => void;

const WAIT_MS_MIN = 200;
const WAIT_MS_MAX = 30_000;
const WAIT_MS_OTHERWISE = 1000;

/**
 * Sends the request with the payment until an answer is final. Every attempt sends exactly the same request, so that
 * the gateway charges only once. If there is no final answer at the deadline (unix ms), the result depends on the
 * attempts. If none can have been charged, resolves with the last answer, and otherwise throws PayFailure. Throws the
 * signal's reason when the signal is aborted.
 */
export async function sendUntilAnswered(
  request: Post,
  deadline: number,
  signal: AbortSignal,
  report: ReportStep,
): Promise<Answer> {
  let statusUrl: string | undefined;
  let mayBeCharged = false;
  for (;;) {
    const answer = await post(request, deadline, signal).catch((error: unknown) => reasonOf(error));
    if (typeof answer !== "string" && !isInconclusive(answer)) return answer;
    signal.throwIfAborted();
    const { reason, waitMs, refusal, ...attempt } = describeAttempt(answer);
    statusUrl = attempt.statusUrl ?? statusUrl;
    mayBeCharged ||= refusal === undefined;
    if (systemClock() + waitMs >= deadline) {
      if (refusal !== undefined && !mayBeCharged) return refusal;
      throw new PayFailure("unknown", { reason, statusUrl });
    }
    const text = `no answer yet (${reason}); sending the same payment again in ${(waitMs / 1000).toFixed(1)} s\n`;
    report("retrying", { reason, wait_ms: waitMs }, text);
    await delay(waitMs, signal);
  }
}

/** Describes an attempt that got no final answer. `refusal` is the answer if it shows that nothing was charged. */
function describeAttempt(answer: Answer | string) {
  if (typeof answer === "string") return { reason: answer, waitMs: WAIT_MS_OTHERWISE };
  return {
    reason: wordsOf(answer),
    waitMs: retryAfterMs(answer),
    statusUrl: textIn(answer, "status_url"),
    refusal: isUncharged(answer) ? answer : undefined,
  };
}

/**
 * Codes of errors that are final although their status is one that usually asks for a repeat. In these cases an
 * operator must decide about the payment, or the paid call has failed.
 */
const FINAL: readonly unknown[] = ["payment.in_review", CALL_FAILED];

function isInconclusive({ status, json }: Answer): boolean {
  return (status >= 500 || status === 429) && !FINAL.includes(json["code"]);
}

type OpenCode = {
  [Code in ErrorCode]: (typeof CODES)[Code]["status"] extends 429 | 503 ? Code : never;
}[ErrorCode];

/**
 * Says for each code whether the gateway may have claimed the payment before it answered with this code. The claim
 * stores the payment, and only then is it sent to be settled. So nothing was charged if the gateway answered before the
 * claim.
 */
const MAY_FOLLOW_CLAIM: Readonly<
  Record<Extract<OpenCode, `${"payment" | "price" | "caller"}.${string}`>, boolean>
> = {
  "payment.outcome_unknown": true,
  "payment.in_review": true,
  "payment.unavailable": false,
  "payment.too_many_open": false,
  "payment.too_many_unsettled": false,
  "price.unavailable": false,
  "caller.check_unavailable": false,
};

function isUncharged({ json: { code } }: Answer): boolean {
  return Object.entries(MAY_FOLLOW_CLAIM).some(([each, mayFollow]) => each === code && !mayFollow);
}

function retryAfterMs({ headers }: Answer): number {
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  const ms = Number.isFinite(seconds) ? seconds * 1000 : WAIT_MS_OTHERWISE;
  return Math.min(WAIT_MS_MAX, Math.max(WAIT_MS_MIN, ms));
}

/**
 * Runs `work`, which sends the payment, so that the user can interrupt it. The first Ctrl-C aborts the signal with a
 * PayFailure. Its outcome is `unknown`, because the payment may have been made. The second Ctrl-C ends the process.
 */
export async function interruptible<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const controller = new AbortController();
  const interrupt = () => controller.abort(new PayFailure("unknown", { reason: "interrupted" }));
  process.once("SIGINT", interrupt);
  try {
    return await work(controller.signal);
  } finally {
    process.off("SIGINT", interrupt);
  }
}
