import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { delay, systemClock } from "../../../shared/platform/time/clock.ts";
import { type Answer, get, isSuccess, reasonOf, wordsOf } from "../http.ts";
import { signInHeader } from "./sign-in.ts";

/** A job's output. */
export type JobResult = { status: number; contentType: string | undefined; body: Buffer };

/** Token and key that prove the right to a result. The key is used if there is no token, or if the token is refused. */
export type Credentials = { token: string | undefined; payerKey: Secret | undefined };

/** Says in a sentence why a result could not be fetched. */
export class NoResult extends Error {
  override readonly name = "NoResult";
  /** Error code of the gateway's answer. */
  readonly code: unknown;

  constructor(reason: string, { code, cause }: { code?: unknown; cause?: unknown } = {}) {
    super(reason, { cause });
    this.code = code;
  }
}

/** Error code of a call that failed for good. */
export const CALL_FAILED = "result.call_failed";

const ASK_EVERY_MS = 2000;
/** Minimum time limit of one attempt, even if the deadline is nearer. */
const ATTEMPT_MS = 15_000;

/**
 * Fetches a call's result. While the call has not ended, repeats the request until the deadline (unix ms). Sends at
 * least one request, even after the deadline. Throws NoResult.
 */
export async function fetchResult(url: URL, proof: Credentials, deadline: number): Promise<JobResult> {
  for (;;) {
    const answer = await askOnce(url, proof, Math.max(deadline, systemClock() + ATTEMPT_MS));
    const { status, json } = answer;
    if (isSuccess(answer)) return toResult(answer);
    const isPending = json["code"] === "result.pending" || status === 503;
    if (!isPending || systemClock() + ASK_EVERY_MS >= deadline)
      throw new NoResult(wordsOf(answer), { code: json["code"] });
    await delay(ASK_EVERY_MS);
  }
}

export function toResult({ status, headers, body }: Answer): JobResult {
  return { status, contentType: headers.get("content-type") ?? undefined, body };
}

/**
 * Requests the result with the token, if there is one. After a 402 answer, signs in with the payer's key, if there is
 * one, and requests it again. A nonce is valid for one sign-in, so each attempt signs again. No redirect is followed,
 * because the token and the sign-in must go only to this URL.
 */
async function askOnce(url: URL, { token, payerKey }: Credentials, deadline: number): Promise<Answer> {
  const first = await send(url, deadline, token === undefined ? {} : { Authorization: `Bearer ${token}` });
  if (first.status !== 402 || payerKey === undefined) return first;
  const signIn = signInHeader(first, url, payerKey);
  if ("problem" in signIn) throw new NoResult(`sign-in failed: ${signIn.problem}`);
  return send(url, deadline, signIn.headers);
}

function send(url: URL, deadline: number, headers: Record<string, string>): Promise<Answer> {
  return get(url, deadline, headers).catch((cause: unknown) => {
    throw new NoResult(`cannot get the result from ${url.host}: ${reasonOf(cause)}`, { cause });
  });
}
