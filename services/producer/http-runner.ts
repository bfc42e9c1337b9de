import { type Dispatcher, Pool } from "undici";
import { jobKeyOf } from "../../shared/call/job-ids.ts";
import type { RunnerAnswer } from "../../shared/call/results/answer.ts";
import { problemTextOf } from "../../shared/call/results/result.ts";
import { clientSpan } from "../../shared/http/client-span.ts";
import { createConnector } from "../../shared/http/connector.ts";
import { parseRetryAfter } from "../../shared/http/headers.ts";
import { contentDigest, signMessage } from "../../shared/platform/crypto/message-signature.ts";
import type { Secret } from "../../shared/platform/crypto/secret.ts";
import type { AppError } from "../../shared/platform/errors/app-error.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { inSpan, tracer } from "../../shared/platform/traces/tracer.ts";
import type { Hold } from "./consumer/hold.ts";
import type { DeliveredCall, Inject } from "./deliver.ts";
import { exchange, type RunnerResponse } from "./exchange.ts";
import { answerOf, RunnerFailure } from "./retry-policy.ts";

/** Connect timeout. */
export const CONNECT_TIMEOUT_MS = 2000;

type HttpInject = { inject: Inject; close(): Promise<void> };

/** Injects over HTTP: `POST {url}/jobs/{job_id}` on persistent connections. Redirects are not followed. */
export function createHttpInject({
  url,
  secret,
  timeoutMs,
  timeoutMsOfJob,
  connections,
  resultBytesMax,
  clock,
}: {
  /** Base URL of the runner. */
  url: string;
  /** Key that signs each request (RFC 9421); without it requests are unsigned. */
  secret: Secret | undefined;
  /** Timeout of a whole request, until its answer has arrived completely. */
  timeoutMs: number;
  /** Timeout of a whole request by job key, for jobs that have their own. */
  timeoutMsOfJob: ReadonlyMap<string, number>;
  /** Number of persistent connections, which is the maximum number of concurrent injections. */
  connections: number;
  /** Maximum size of an answer that is kept. */
  resultBytesMax: number;
  clock: Clock;
}): HttpInject {
  const base = new URL(url);
  const basePath = base.pathname.replace(/\/$/, "");
  const pool = new Pool(base.origin, {
    connections,
    pipelining: 1,
    connect: createConnector({ timeout: CONNECT_TIMEOUT_MS }),
    // These two timeouts of undici are disabled, because each request has one time limit as a whole, which depends on the
    // job.
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 4000,
  });

  async function inject(delivered: DeliveredCall, hold: Hold): Promise<RunnerAnswer | undefined> {
    const { call } = delivered;
    const span = tracer?.start({ kind: "client", ...clientSpan("POST", base, "/jobs/{job_id}") });
    const request = toRequest(delivered, basePath, secret, Math.floor(clock() / 1000));
    const traceparent = span?.traceparent ?? call.traceparent;
    if (traceparent !== undefined) request.headers["traceparent"] = traceparent;
    const limits = {
      timeoutMs: timeoutMsOfJob.get(jobKeyOf(call)) ?? timeoutMs,
      keepBytesMax: call.keep_result ? resultBytesMax : undefined,
      copyBytesMax: call.keep_delivered ? resultBytesMax : undefined,
    };
    const response = await inSpan(span, async () => {
      const answer = await exchange(pool, request, limits, hold);
      span?.set({ "http.response.status_code": answer.status });
      const error = toError(answer, clock());
      if (error !== undefined) throw error;
      return answer;
    });
    const { keep_result, keep_delivered, callback } = call;
    return keep_result || (keep_delivered ?? callback) !== undefined ? toAnswer(response) : undefined;
  }

  return { inject, close: () => pool.destroy() };
}

/**
 * Builds the request that carries a call to a runner. It has the body and its Content-Type as received, and the metadata as
 * headers. `Idempotency-Key` is the call id. If the runner has a secret, a signature covers all of these and the path. So
 * neither the job nor the sender can be changed on the way.
 */
function toRequest(
  { call, body }: DeliveredCall,
  basePath: string,
  secret: Secret | undefined,
  createdSec: number,
): Dispatcher.RequestOptions & { headers: Record<string, string> } {
  const path = `${basePath}/jobs/${call.job_id}`;
  const covered: Record<string, string> = {
    "content-digest": contentDigest(call.sha256),
    ...(call.content_type !== undefined && { "content-type": call.content_type }),
    "idempotency-key": call.id,
  };
  for (const key in call.metadata) covered[key.toLowerCase()] = call.metadata[key] as string;
  const signature = secret && signMessage(secret, { method: "POST", path, headers: covered }, createdSec);
  const headers: Record<string, string> = { ...covered, ...signature };
  return { method: "POST", path, headers, body };
}

/**
 * Header of an answer without a result. A runner that gets a call again must repeat its first answer. If it no longer has
 * that body, it says so with the value `forgotten` of this header (docs/runner.md).
 */
const FORGOTTEN_HEADER = "idempotent-body";

function toAnswer(response: RunnerResponse): RunnerAnswer {
  const { status, body, isTooLong, isBroken } = response;
  const contentType = response.header("content-type");
  if (isBroken || response.header(FORGOTTEN_HEADER) === "forgotten")
    return { status, body: { missing: "gone" } };
  return { status, contentType, body: isTooLong ? { missing: "too long" } : body };
}

/** Returns the error for an answer; undefined for 2xx. */
function toError(response: RunnerResponse, now: number): AppError | undefined {
  const { status, body, excerpt } = response;
  if (status >= 200 && status < 300) return undefined;
  const retryAfterMs = parseRetryAfter(response.header("retry-after"), now);
  const reason = excerpt === "" ? `HTTP ${status}` : `${status} ${excerpt}`;
  const { code, ...outcome } = answerOf(status, retryAfterMs !== undefined);
  return new RunnerFailure(code, {
    reason,
    status,
    outcome,
    problem: problemTextOf(response.header("content-type"), body),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });
}
