import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { delay, systemClock } from "../../../shared/platform/time/clock.ts";
import { type Answer, get, isSuccess, reasonOf, wordsOf } from "../http.ts";
import { signInHeader } from "./sign-in.ts";

/** A job's output. */
export type JobResult = { status: number; contentType: string | undefined; body: Buffer };

/**
 * The result token, and the payer's private key. Either proves to the gateway that the user may have the result. The
 * key is used if there is no token, or if the gateway refuses the token.
 */
export type Credentials = { token: string | undefined; payerKey: Secret | undefined };

/** Thrown if a result could not be fetched. The message says why. */
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
/** Time that each request gets at least, even if the deadline is nearer. */
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
 * Requests the result once, with the token if there is one. A 402 answer contains a challenge for payers. If the
 * payer's key is known, this function signs the challenge and requests the result again. A challenge is valid only
 * once, so each attempt signs a new one. No redirect is followed, because the token and the signature must go only to
 * this URL.
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
