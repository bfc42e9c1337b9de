import type { IncomingMessage, ServerResponse } from "node:http";
import { CALL_ID } from "../call/call-id.ts";
import {
  isDeliveryHeader,
  PROGRESS_BYTES_MAX,
  RESULT_BODY,
  RESULT_STATUS,
  TOO_LONG,
} from "../call/results/delivery.ts";
import type { ResultLimits } from "../call/results/result.ts";
import { problemTextOf, usableContentType } from "../call/results/result.ts";
import { createResults, createStoreProgress } from "../call/results/store.ts";
import { createDeliverResult, type Delivery } from "../call-search/deliver-result.ts";
import { markAuthenticated } from "../http/authenticated.ts";
import { readBodyUpTo } from "../http/body.ts";
import { allHeaders, headerValues } from "../http/headers.ts";
import { logRefused, sendProblem } from "../http/problem.ts";
import { assertNoQuery, type Route } from "../http/router.ts";
import { wholeTarget } from "../http/target.ts";
import { isContentDigestOf, verifyMessage } from "../platform/crypto/message-signature.ts";
import type { Secret } from "../platform/crypto/secret.ts";
import { AppError, messageOf, RETRY_AFTER_MS, toAppError } from "../platform/errors/app-error.ts";
import { createConcurrencyLimit } from "../platform/lifecycle/concurrency-limit.ts";
import { failpoint } from "../platform/lifecycle/failpoint.ts";
import type { Logger } from "../platform/log/logger.ts";
import { parseJson } from "../platform/text/parse-json.ts";
import type { Clock } from "../platform/time/clock.ts";
import { byCall, type Partition, type Partitioned } from "../redis/partition.ts";
import type { BeginWrite } from "../redis/retry-write.ts";

/** Runners that may deliver results, and a function that tells which of them has a job. */
export type Deliverers = {
  /** Secrets of the runners, by name. */
  secrets: ReadonlyMap<string, readonly Secret[]>;
  /** Returns the name of the runner that has the job with this key. */
  runnerOf: (job: string) => string;
};

/** Connections over which a gateway writes delivered results to one partition. */
export type ResultWrites = {
  small: Partition;
  /** The partition, over its connection for large writes. */
  large: Partition;
  beginWrite: BeginWrite;
};

type Options = {
  deliverers: Deliverers;
  writes: Partitioned<ResultWrites>;
  limits: ResultLimits;
  clock: Clock;
  log: Logger;
};

/**
 * Limit on a delivered body. A longer body is refused, because it is not read completely and so cannot be compared with
 * the signed digest.
 */
const BODY_BYTES_MAX = 64 * 1024 * 1024;
/** Limit on concurrent deliveries. It also limits the memory of their bodies. */
const CONCURRENCY_MAX = 64;

const PLACES = [
  { what: "result", method: "PUT", path: "/calls/{call_id}/result" },
  { what: "progress", method: "POST", path: "/calls/{call_id}/progress" },
] as const;

/** Routes of a gateway whose configuration allows no deliveries. They answer with 404 and name the setting. */
export const DISABLED_DELIVERY_ROUTES: readonly Route[] = PLACES.map(({ method, path }) => ({
  method,
  path,
  serve() {
    const detail = "deliveries are off: set deliveries = true in [results] of postern.toml";
    throw AppError.public("request.not_found", detail);
  },
}));

/**
 * Creates PUT /calls/{call_id}/result and POST /calls/{call_id}/progress. With them, the runner of a long job delivers
 * its result and reports its progress. The request must be signed with a runner's secret. The signature is checked
 * before the body or Redis is read. Any replica accepts deliveries.
 */
export function deliveryRoutes(options: Options): Route[] {
  const { log } = options;
  const limit = createConcurrencyLimit({
    max: CONCURRENCY_MAX,
    what: "deliveries",
    code: "request.rate_limited",
  });
  const authenticate = createAuthenticate(options);
  const assertOfJob = createAssertOfJob(options);
  const takes = { result: createTakeResult(options), progress: createTakeProgress(options) };

  async function take(
    req: IncomingMessage,
    res: ServerResponse,
    what: keyof typeof takes,
    callId: string,
  ): Promise<void> {
    assertNoQuery(req);
    if (!CALL_ID.test(callId)) throw AppError.public("request.not_found", "the call id is not valid");
    const runners = authenticate(req);
    markAuthenticated(req);
    await limit.within(async () => {
      await assertOfJob(callId, runners);
      await takes[what](req, res, callId);
    });
    if (!res.destroyed) res.writeHead(204).end();
  }

  return PLACES.map(({ what, method, path }) => ({
    method,
    path,
    serve: (req, res, { call_id: callId = "" }) =>
      take(req, res, what, callId).catch((thrown: unknown) => {
        const error = toAppError(thrown);
        sendProblem(req, res, error);
        logRefused(log, "result.refused", error, { what, ...(CALL_ID.test(callId) && { callId }) });
      }),
  }));
}

/**
 * Creates the check of the signature. It returns the names of the runners whose secret verifies the signature: several,
 * if they share a secret. It throws `runner.signature_rejected` if no secret verifies it.
 */
function createAuthenticate({ deliverers, clock }: Options) {
  return function authenticate(req: IncomingMessage): readonly string[] {
    const request = { method: req.method ?? "", path: wholeTarget(req), headers: allHeaders(req) };
    const rules = { nowSec: Math.floor(clock() / 1000), mustCover: isDeliveryHeader };
    const signed: string[] = [];
    let refusal: unknown;
    for (const [name, secrets] of deliverers.secrets) {
      try {
        verifyMessage(secrets, request, rules);
        signed.push(name);
      } catch (error) {
        refusal = error;
      }
    }
    if (signed.length === 0) throw refusal;
    return signed;
  };
}

/**
 * Creates the check that the call's job belongs to one of the runners that may have signed the request. The job is in
 * the call's record. If the call has no record yet, or no longer has one, its job is unknown. The check then passes:
 * only the call's own runner got its id, which no other runner can guess.
 */
function createAssertOfJob({ deliverers, writes }: Options) {
  const results = byCall(writes.map(({ small }) => createResults(small)));
  return async function assertOfJob(callId: string, runners: readonly string[]): Promise<void> {
    const job = await results.jobOf(callId);
    if (job === undefined || runners.includes(deliverers.runnerOf(job))) return;
    const reason = `the call is for job ${job} of runner ${deliverers.runnerOf(job)}, but runner ${runners.join(", ")} signed`;
    throw new AppError("runner.signature_rejected", { reason });
  };
}

function unavailable(cause: unknown): never {
  throw new AppError("queue.unavailable", { reason: messageOf(cause), retryAfterMs: RETRY_AFTER_MS, cause });
}

/**
 * Creates the handler of results. It resolves once the result is on disk. If an earlier delivery has stored the same
 * result, it resolves as well, because a runner repeats a delivery whose answer was lost. Throws `result.conflict` and
 * `result.too_late`.
 */
function createTakeResult({ writes, limits, clock, log }: Options) {
  const deliver = byCall(
    writes.map(({ small, large, beginWrite }) => {
      const lanes = { small: createDeliverResult(small, limits), large: createDeliverResult(large, limits) };
      return {
        store: (callId: string, delivery: Delivery, bytes: number) =>
          beginWrite(bytes)((lane) => lanes[lane](callId, delivery), bytes),
      };
    }),
  );

  return async function takeResult(req: IncomingMessage, res: ServerResponse, callId: string): Promise<void> {
    const status = statusOf(req);
    const isTooLong = isMarkedTooLong(req);
    const { sha256, body } = await readBodyUpTo(req, res, {
      keptBytesMax: limits.resultBytesMax,
      limitBytes: BODY_BYTES_MAX,
    });
    assertDigest(req, sha256);
    const delivery = toDelivery(req, status, isTooLong ? undefined : body, clock());
    const bytes = body?.length ?? 0;
    failpoint("delivery.before_stored");
    const became = await deliver.store(callId, delivery, bytes);
    failpoint("delivery.after_stored");
    if (became === "too late") throw tooLate();
    if (became === "another") throw AppError.public("result.conflict", "the call already has another result");
    log.info("result.delivered", { callId, kind: delivery.kind, status, bytes, repeated: became === "same" });
  };
}

/** Creates the handler of progress. It resolves once Redis has stored the progress. Throws `result.too_late`. */
function createTakeProgress({ writes, limits, clock }: Options) {
  const { storeProgress } = byCall(
    writes.map(({ small }) => ({ storeProgress: createStoreProgress(small, limits) })),
  );

  return async function takeProgress(
    req: IncomingMessage,
    res: ServerResponse,
    callId: string,
  ): Promise<void> {
    const { sha256, body } = await readBodyUpTo(req, res, {
      keptBytesMax: PROGRESS_BYTES_MAX,
      limitBytes: PROGRESS_BYTES_MAX,
    });
    assertDigest(req, sha256);
    const progress = { at: clock(), json: jsonObject(body) };
    const outcome = await storeProgress(callId, progress).catch(unavailable);
    if (outcome === "ended") throw tooLate();
  };
}

function tooLate(): AppError {
  return AppError.public("result.too_late", "the call no longer accepts a result or progress");
}

/**
 * Compares the body with Content-Digest. The signature covers the body only through this digest, so a wrong digest is
 * refused like a wrong signature.
 */
function assertDigest(req: IncomingMessage, sha256: string): void {
  if (isContentDigestOf(headerValues(req, "content-digest"), sha256)) return;
  const reason = "the body does not match Content-Digest";
  throw new AppError("runner.signature_rejected", { reason });
}

function statusOf(req: IncomingMessage): number {
  const [text = "200"] = headerValues(req, RESULT_STATUS);
  if (/^[245]\d\d$/.test(text)) return Number(text);
  const detail = "Result-Status must be 2xx for an answer, or 4xx or 5xx for a call that failed for good";
  throw AppError.public("request.malformed", detail);
}

function isMarkedTooLong(req: IncomingMessage): boolean {
  const [text] = headerValues(req, RESULT_BODY);
  if (text === undefined || text === TOO_LONG) return text === TOO_LONG;
  throw AppError.public("request.malformed", `Result-Body must be ${TOO_LONG} or absent`);
}

/** Converts a request to a delivery. `body` is undefined if the result is too long to keep. */
function toDelivery(req: IncomingMessage, status: number, body: Buffer | undefined, at: number): Delivery {
  const [contentType] = headerValues(req, "content-type");
  const common = { status, at, by: "delivery" } as const;
  if (status >= 300) {
    const problem = body && problemTextOf(contentType, body);
    return { ...common, contentType: undefined, kind: "failure", ...problem };
  }
  const answered = { ...common, contentType: usableContentType(contentType) };
  return body === undefined ? { ...answered, kind: "too_long" } : { ...answered, kind: "answer", body };
}

function jsonObject(body: Buffer | undefined): string {
  const value = parseJson(body?.toString("utf8") ?? "");
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return JSON.stringify(value);
  throw AppError.public("request.malformed", "progress must be a JSON object");
}
