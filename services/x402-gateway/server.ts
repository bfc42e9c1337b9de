import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { platformKeys } from "../../shared/call/job-call.ts";
import { JOB_INDEX_MAX, type JobIds } from "../../shared/call/job-ids.ts";
import { sendBody } from "../../shared/http/answer.ts";
import { leaveUnread } from "../../shared/http/body.ts";
import { corsHeaders, createPreflight } from "../../shared/http/cors.ts";
import { serveProbes } from "../../shared/http/ops.ts";
import { sendProblem } from "../../shared/http/problem.ts";
import type { Readiness } from "../../shared/http/readiness.ts";
import type { RefusalLog } from "../../shared/http/refusal-log.ts";
import { createRouter, nothingAt, type Params, type Route } from "../../shared/http/router.ts";
import { inServerSpan } from "../../shared/http/server-span.ts";
import { CALL_ID_SHAPES } from "../../shared/ingress/call-routes.ts";
import { callbackHeaders } from "../../shared/ingress/read-callback.ts";
import { type AppError, toAppError } from "../../shared/platform/errors/app-error.ts";
import { CODES } from "../../shared/platform/errors/codes.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { type Job, noOfferError } from "./offer/catalog.ts";
import { quoteHeaders } from "./offer/operator-quote.ts";
import type { RequestedJobs } from "./offer/requested-jobs.ts";
import { hasPayment } from "./payment/header.ts";
import { UnfitInput } from "./payment/input-check.ts";
import { OpenPaymentError, unchargedHeaders } from "./payment/outcome.ts";
import type { Challenge } from "./routes/challenge.ts";
import type { DryRun } from "./routes/dry-run.ts";
import type { PayJob, PaymentAttempt } from "./routes/pay-job.ts";

type HandlerDeps = RefuseDeps & {
  payJob: PayJob;
  dryRun: DryRun;
  /** Returns the list of jobs as JSON, for the request's target. */
  listJobs: (target: string) => Buffer;
  priceOf: (ids: JobIds) => object;
  schemaOf: (ids: JobIds) => object;
  callRoutes: readonly Route[];
  callbackKeysRoute: Route;
  /** Routes of the documents that describe the jobs for sale. */
  discovery: readonly Route[];
  readiness: () => Readiness;
  metadataPrefix: string;
};

/** Creates the handler of all requests. Most requests have no payment and get a 402, so that path is synchronous and fast. */
export function createHandler(deps: HandlerDeps): RequestListener {
  const { challenge, readiness } = deps;
  const refuse = createRefuse(deps);
  const payRoute = createPayRoute(deps, refuse);
  const router = createRouter(createRoutes(deps, payRoute, refuse), { shapes: SHAPES });
  const serveProbe = serveProbes(readiness, { health: "/x402/health" });

  function askForPayment(req: IncomingMessage, res: ServerResponse, ids: JobIds): void {
    const refuseUnpaid = (thrown: unknown): void => {
      res.setHeaders(CORS_HEADER_MAP);
      refuse(req, res, thrown, ids);
    };
    try {
      challenge.answerUnpaid(req, res, ids)?.catch(refuseUnpaid);
    } catch (thrown) {
      refuseUnpaid(thrown);
    }
  }

  async function answer(req: IncomingMessage, res: ServerResponse, { serve }: Route, params: Params) {
    try {
      await serve(req, res, params);
    } catch (thrown) {
      refuse(req, res, thrown);
    }
  }

  return (req, res) => {
    try {
      const found = router.find(req, res);
      if (found?.route === payRoute && !hasPayment(req))
        return askForPayment(req, res, toIds(req, found.params));
      res.setHeaders(CORS_HEADER_MAP);
      if (found === undefined) serveProbe(req, res);
      else void answer(req, res, found.route, found.params);
    } catch (thrown) {
      res.setHeaders(CORS_HEADER_MAP);
      refuse(req, res, thrown);
    }
  };
}

const JOB = "/x402/jobs/{service_id}/{job_index}";

/** Form of the ids in a path. Each number has only one form: without a sign, leading zeros or percent-encoding. */
const SHAPES = { ...CALL_ID_SHAPES, service_id: /0|[1-9]\d{0,15}/, job_index: /0|[1-9]\d{0,9}/ };

/** Parses the ids in a path. Throws `request.not_found` if an id is too large. */
function toIds(req: IncomingMessage, { service_id, job_index }: Params): JobIds {
  const ids = { serviceId: Number(service_id), jobIndex: Number(job_index) };
  if (Number.isSafeInteger(ids.serviceId) && ids.jobIndex <= JOB_INDEX_MAX) return ids;
  throw nothingAt(req);
}

function createPayRoute({ payJob, clock }: HandlerDeps, refuse: Refuse): Route {
  return {
    method: "POST",
    path: JOB,
    usage: "buy a job with POST; the body is its input, and may be empty",
    async serve(req, res, params) {
      const attempt: PaymentAttempt = { ids: toIds(req, params), startedAt: clock(), signed: undefined };
      await inServerSpan({ req, res }, JOB, () =>
        payJob.answer(req, res, attempt).catch((thrown) => refuse(req, res, thrown, attempt.ids, attempt)),
      );
    },
  };
}

/**
 * Creates all routes except the probes. Browsers send a preflight (OPTIONS) before requests from pages of other origins, so each
 * path also has a route for it.
 */
function createRoutes(deps: HandlerDeps, payRoute: Route, refuse: Refuse): Route[] {
  const { dryRun, listJobs, priceOf, schemaOf, callRoutes, discovery, callbackKeysRoute, metadataPrefix } =
    deps;

  type AnswerJob = (req: IncomingMessage, res: ServerResponse, ids: JobIds) => void | Promise<void>;
  const jobRoute = (method: string, below: string, answer: AnswerJob): Route => ({
    method,
    path: `${JOB}${below}`,
    async serve(req, res, params) {
      const ids = toIds(req, params);
      try {
        await answer(req, res, ids);
      } catch (thrown) {
        refuse(req, res, thrown, ids);
      }
    },
  });

  const routes: readonly Route[] = [
    payRoute,
    jobRoute("POST", "/auth-dry-run", async (req, res, ids) => {
      const allowed = await dryRun.answer(req, res, ids);
      leaveUnread(req, res);
      sendJson(res, allowed);
    }),
    jobRoute("GET", "/price", (_req, res, ids) => sendJson(res, priceOf(ids))),
    jobRoute("GET", "/schema", (_req, res, ids) => sendJson(res, schemaOf(ids), "application/schema+json")),
    {
      method: "GET",
      path: "/x402",
      serve: (req, res) => sendBody(res, JSON_TYPE, listJobs(req.url ?? "")),
    },
    ...callRoutes,
    ...discovery,
  ];
  const headers = allowedHeaders(metadataPrefix);
  const answerPreflight = createPreflight({ methods: ["GET", "POST"], headers });
  const preflights = routes.map(
    ({ path }): Route => ({
      method: "OPTIONS",
      path,
      serve: (_req, res) => answerPreflight(res),
    }),
  );
  return [...routes, ...preflights, callbackKeysRoute];
}

type Refuse = ReturnType<typeof createRefuse>;

type RefuseDeps = {
  challenge: Challenge;
  requestedJobs: RequestedJobs;
  statusUrlOf: (callId: string) => string;
  clock: Clock;
  refusals: RefusalLog;
};

/**
 * Creates the function that answers the errors of all routes. The answer is a problem document, or a 402 with new offers if a
 * payment cannot be accepted. If the outcome of a payment is unknown, the answer has a URL to follow it. Refused payments are
 * logged, at a limited rate.
 */
function createRefuse({ challenge, requestedJobs, statusUrlOf, clock, refusals }: RefuseDeps) {
  /**
   * Returns the job that the answer to a refused payment offers again. Undefined if the job is not for sale, or if its operator's
   * quote is not accepted.
   */
  function jobOnOffer(req: IncomingMessage, ids: JobIds): Job | undefined {
    try {
      return requestedJobs.jobOf(req, ids);
    } catch {
      return undefined;
    }
  }

  function answer(
    req: IncomingMessage,
    res: ServerResponse,
    refusal: AppError,
    ids: JobIds | undefined,
    attempt: PaymentAttempt | undefined,
  ): AppError {
    const job = ids && isOfferedAgain(refusal) ? jobOnOffer(req, ids) : undefined;
    const error = withOffer(refusal, job);
    if (attempt && isOfferedAgain(error) && job !== undefined && job.prices.length > 0) {
      challenge.offerAgain(req, res, job, { code: error.code, detail: error.publicDetail });
    } else {
      const statusUrl = attempt && error instanceof OpenPaymentError ? statusUrlOf(error.callId) : undefined;
      const { headers, members } = toExtra(error, ids, statusUrl);
      const uncharged = unchargedHeaders(error, attempt?.signed);
      sendProblem(req, res, error, { headers: { ...headers, ...uncharged }, members });
    }
    return error;
  }

  return function refuse(
    req: IncomingMessage,
    res: ServerResponse,
    thrown: unknown,
    ids?: JobIds,
    attempt?: PaymentAttempt,
  ): void {
    try {
      const error = answer(req, res, toAppError(thrown), ids, attempt);
      if (attempt === undefined) return;
      const { signed, startedAt } = attempt;
      refusals.note(error, {
        ...attempt.ids,
        ...(signed?.callId !== undefined && { callId: signed.callId }),
        ...(signed?.isSignedByPayer && { payer: signed.payer }),
        ms: clock() - startedAt,
      });
    } catch (unforeseen) {
      // If this error were thrown further, it would end the process, with all its payments that are being settled.
      sendProblem(req, res, toAppError(unforeseen));
    }
  };
}

/**
 * Returns `price.unavailable` in place of the refusal if the job has no offers, because a 402 without offers cannot be paid. The
 * refusal `payment.void` is kept, because it says what happened to the payment.
 */
function withOffer(refusal: AppError, job: Job | undefined): AppError {
  if (job === undefined || refusal.code === "payment.void") return refusal;
  return noOfferError(job) ?? refusal;
}

/** Whether the answer to this refusal offers the job again. */
function isOfferedAgain({ code }: AppError): boolean {
  const { status } = CODES[code];
  return status === 402 || status === 412;
}

function toExtra(error: AppError, ids: JobIds | undefined, statusUrl: string | undefined) {
  const isJobError = ids !== undefined && error.code.startsWith("job.");
  return {
    headers: statusUrl === undefined ? {} : { Location: statusUrl },
    members: {
      ...(isJobError && { service_id: ids.serviceId, job_index: ids.jobIndex }),
      ...(statusUrl !== undefined && { status_url: statusUrl }),
      ...(error instanceof UnfitInput && {
        errors: [{ detail: error.mismatch.what, pointer: error.mismatch.pointer }],
      }),
    },
  };
}

const JSON_TYPE = "application/json";

function sendJson(res: ServerResponse, value: object, type = JSON_TYPE): void {
  sendBody(res, type, JSON.stringify(value));
}

const EXPOSED = [
  "PAYMENT-REQUIRED",
  "PAYMENT-RESPONSE",
  "X-PAYMENT-RESPONSE",
  "Retry-After",
  "Location",
  "Idempotent-Replayed",
  "Preference-Applied",
  "Content-Location",
];

/** Headers of CORS, by which a browser lets the pages of any site buy here. */
export const CORS_HEADERS = corsHeaders(EXPOSED);

/** CORS headers for every answer. A page can then also read errors such as a 404 or a 405. */
const CORS_HEADER_MAP = new Map(Object.entries(CORS_HEADERS));

/**
 * Request headers that a page of another site may send. `Access-Control-Expose-Headers` is a response header, but `@x402/fetch`
 * sends it with its requests. The gateway ignores `X-Request-Id`, but libraries and proxies on a page's side add it.
 */
const ALLOWED = [
  "Content-Type",
  "PAYMENT-SIGNATURE",
  "X-PAYMENT",
  "SIGN-IN-WITH-X",
  "Access-Control-Expose-Headers",
  "traceparent",
  "Idempotency-Key",
  "Authorization",
  "Prefer",
  "Last-Event-ID",
  "X-Request-Id",
];

/** Returns all request headers that a page of another site may send, including those whose names depend on `metadata_prefix`. */
function allowedHeaders(metadataPrefix: string): string[] {
  const { caller } = platformKeys(metadataPrefix);
  const delegated = ["", "-NONCE", "-SIG", "-EXPIRY"].map((part) => `${caller}${part}`);
  return [...ALLOWED, ...delegated, ...quoteHeaders(metadataPrefix), ...callbackHeaders(metadataPrefix)];
}
