import type { CallbackEvent } from "../../../shared/call/callback.ts";
import type { ResultRead, Results } from "../../../shared/call/results/store.ts";
import { clientSpan } from "../../../shared/http/client-span.ts";
import { parseRetryAfter } from "../../../shared/http/headers.ts";
import { createAddressList } from "../../../shared/http/ip/address-list.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { AppError, toAppError } from "../../../shared/platform/errors/app-error.ts";
import { failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { inSpan, tracer } from "../../../shared/platform/traces/tracer.ts";
import type { Inject } from "../deliver.ts";
import { exchange, type RunnerResponse } from "../exchange.ts";
import { outcomeOf, RunnerFailure } from "../retry-policy.ts";
import { createBreaker } from "./breaker.ts";
import { AddressForbidden, createGuardedAgent } from "./guarded-agent.ts";
import { createSign, type Message, toBody } from "./message.ts";

type Options = {
  /** Secrets as `whsec_` and base64. Each callback is signed with the keys derived from every secret. */
  secrets: readonly Secret[];
  /** Address ranges that may be called although they are not public, even without TLS. */
  allowCidrs: readonly string[];
  timeoutMs: number;
  /** Maximum number of deliveries in flight to one receiver. */
  concurrency: number;
  /**
   * Maximum size of a result in a callback. The body of a longer result is left out, and the receiver must request it from
   * the gateway.
   */
  resultBytesMax: number;
  results: Pick<Results, "read">;
  clock: Clock;
  log: Logger;
};

export type Callbacks = {
  inject: Inject;
  /** Returns the number of receivers that do not answer. */
  receiversAway(): number;
  close(): Promise<void>;
};

/**
 * Delivers callbacks: a POST to the receiver, signed as Standard Webhooks specifies. Each attempt builds its body again, and
 * includes the call's result only if the result is still kept at that time.
 *
 *   callback.unanswered          no connection, or no answer in time
 *   callback.failed              any answer other than 2xx and 410; a redirect is not followed
 *   callback.gone                410: the receiver refuses all callbacks from now on
 *   callback.address_forbidden   the receiver is neither on the public internet nor allowed
 */
export function createCallbacks(options: Options): Callbacks {
  const { secrets, allowCidrs, timeoutMs, concurrency, resultBytesMax, results, clock, log } = options;
  const sign = createSign(secrets);
  const breaker = createBreaker({ clock, log });
  const agent = createGuardedAgent({ allowed: createAddressList(allowCidrs), connections: concurrency });

  const inject: Inject = async ({ call }, hold) => {
    const { told } = call;
    if (told === undefined) throw new AppError("call.corrupt", { reason: "the callback names no call" });
    const url = parseUrl(told.to.url);
    const attempt = breaker.begin(told.to.receiver);
    if ("away" in attempt) {
      const reason = `${told.to.receiver} is down: ${attempt.away}`;
      throw new AppError("callback.unanswered", { reason, retryAfterMs: attempt.forMs });
    }
    try {
      const body = toBody({ ...call, told }, await readEnd(results, told), resultBytesMax);
      const message = sign(call.id, told.to.url, body, Math.floor(clock() / 1000));
      failpoint("callback.before_post");
      const span = tracer?.start({ kind: "client", ...clientSpan("POST", url) });
      await inSpan(span, async () => {
        const response = await exchange(agent, toRequest(url, message), { timeoutMs }, hold);
        span?.set({ "http.response.status_code": response.status });
        attempt.answered();
        failpoint("callback.after_post");
        const error = toError(response, clock());
        if (error !== undefined) throw error;
      });
    } catch (thrown) {
      const error = fromExchange(thrown);
      if (outcomeOf(error).peer === "silent" && !hold.lost) attempt.failed(error.message);
      else attempt.ended();
      throw error;
    }
  };

  return { inject, receiversAway: breaker.away, close: () => agent.destroy() };
}

/** Reads the result of the call. If Postern itself failed the call, there is no result to read: `failure` has the reason. */
async function readEnd(
  results: Pick<Results, "read">,
  { call_id, failure }: CallbackEvent,
): Promise<ResultRead> {
  if (failure !== undefined) return { kind: "none kept" };
  return results.read(call_id).catch((error: unknown) => {
    if (toAppError(error).code === "record.unreadable") return { kind: "gone" } as const;
    throw error;
  });
}

/**
 * Parses the receiver's URL. It was already validated, when the configuration was read or when the gateway got the request,
 * so an error here is unlikely.
 */
function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const hasUser = url !== undefined && (url.username !== "" || url.password !== "");
  if (url !== undefined && !hasUser && /^https?:$/.test(url.protocol)) return url;
  throw new AppError("callback.address_forbidden", {
    reason: "the URL must be http or https, without a user",
  });
}

function toRequest({ origin, pathname, search }: URL, { headers, body }: Message) {
  return { origin, path: `${pathname}${search}`, method: "POST", headers, body } as const;
}

function fromExchange(thrown: unknown): AppError {
  const error = toAppError(thrown);
  const { message: reason, cause } = error;
  if (cause instanceof AddressForbidden) return new AppError("callback.address_forbidden", { reason, cause });
  const { peer } = outcomeOf(error);
  const hasNoAnswer = peer === "unreachable" || peer === "silent";
  return hasNoAnswer ? new AppError("callback.unanswered", { reason, cause }) : error;
}

/** Returns the error for an answer; undefined for 2xx. */
function toError(response: RunnerResponse, now: number): AppError | undefined {
  const { status, excerpt } = response;
  if (status >= 200 && status < 300) return undefined;
  const said = excerpt === "" ? "" : ` ${excerpt}`;
  if (status === 410) return new RunnerFailure("callback.gone", { status, reason: `${status}${said}` });
  const unfollowed = status >= 300 && status < 400 ? " (redirects are not followed)" : "";
  const retryAfterMs = parseRetryAfter(response.header("retry-after"), now);
  const asked = retryAfterMs === undefined ? {} : { retryAfterMs };
  return new RunnerFailure("callback.failed", { status, reason: `${status}${unfollowed}${said}`, ...asked });
}
