import { delay, systemClock } from "../../../shared/time/clock.ts";
import { bodyText, writeBody } from "../body.ts";
import { type Answer, get, reasonOf, wordsOf } from "../http.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { plain } from "../text.ts";
import { PayFailure } from "./purchase.ts";

/** What the job has answered. */
export type JobResult = { status: number; contentType: string | undefined; body: Buffer };

/** The call that was paid for has failed, and nothing is to be sent again. */
export const CALL_FAILED = "result.call_failed";

/** The header that has a gateway hold its answer until the result is there (RFC 7240); none if nobody waits. */
export function preferWait(secs: number | undefined): Record<string, string> {
  return secs === undefined ? {} : { Prefer: `wait=${secs}` };
}

/** The result, if that is what a paid request was answered with: a 202 of the gateway has no `Preference-Applied`. */
export function resultIn({ status, headers, body }: Answer): JobResult | undefined {
  if (status < 200 || status > 299 || !headers.has("preference-applied")) return undefined;
  return toResult(status, headers, body);
}

function toResult(status: number, headers: Headers, body: Buffer): JobResult {
  return { status, contentType: headers.get("content-type") ?? undefined, body };
}

/** The call whose result an answer is. */
export function callIn({ headers }: Answer): { callId: string | undefined; statusUrl: string | undefined } {
  const [, statusUrl, callId] =
    /^(\S+\/(c_[0-9a-f]{32}))\/result$/.exec(headers.get("content-location") ?? "") ?? [];
  return { callId, statusUrl };
}

/** Throws PayFailure if the answer is that the call has failed for good. */
export function requireNoFailure(answer: Answer): void {
  if (answer.json["code"] !== CALL_FAILED) return;
  throw new PayFailure("failed", { reason: `the job is paid for, and failed: ${wordsOf(answer)}` });
}

const ASK_EVERY_MS = 2000;

/**
 * Asks for the result of a call that was not there in time, until it is there, or until the deadline: or answers why there is none. Throws
 * PayFailure if the call has failed.
 */
export async function laterResult(url: URL, token: string, deadline: number): Promise<JobResult | string> {
  for (;;) {
    const asked = await get(url, deadline, { Authorization: `Bearer ${token}` }).catch(reasonOf);
    if (typeof asked === "string") return asked;
    const { status, headers, body, json } = asked;
    if (status >= 200 && status <= 299) return toResult(status, headers, body);
    requireNoFailure(asked);
    const isPending = json["code"] === "result.pending" || status === 503;
    if (!isPending || systemClock() + ASK_EVERY_MS >= deadline) return wordsOf(asked);
    await delay(ASK_EVERY_MS);
  }
}

/** For people with how long it is; with --quiet its bytes alone. */
export function printResult(deps: ProgramDeps, result: JobResult, quiet: boolean): void {
  const { status, contentType, body } = result;
  if (quiet) {
    writeBody(deps, "the result", body);
    return;
  }
  deps.say(
    `result: ${status}${contentType === undefined ? "" : ` ${plain(contentType)}`}, ${body.length} bytes\n`,
  );
  deps.say(bodyText(body, { full: true }));
}

/** A body that is no text is base64. */
export function resultJson({ status, contentType, body }: JobResult) {
  const text = body.toString("utf8");
  const isText = Buffer.from(text).equals(body);
  return {
    status,
    content_type: contentType,
    ...(isText ? { body: text } : { body_base64: body.toString("base64") }),
  };
}
