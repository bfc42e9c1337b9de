import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { CALLBACK_KEYS_PATH } from "../../shared/call/callback.ts";
import { platformKeys } from "../../shared/call/job-call.ts";
import { JOB_INDEX_MAX, type JobIds } from "../../shared/call/job-ids.ts";
import { leaveUnread } from "../../shared/http/body.ts";
import { corsHeaders, createPreflight } from "../../shared/http/cors.ts";
import { rawPath } from "../../shared/http/headers.ts";
import { bareApp, type OpsRoutes, onlyGet, probes, serve } from "../../shared/http/ops.ts";
import { COMMON_HEADERS, sendProblem } from "../../shared/http/problem.ts";
import type { Readiness } from "../../shared/http/readiness.ts";
import type { RefusalLog } from "../../shared/http/refusal-log.ts";
import { type CallRoute, createParseCallRoute } from "../../shared/ingress/call-routes.ts";
import { callbackHeaders } from "../../shared/ingress/read-callback.ts";
import { AppError, toAppError } from "../../shared/platform/errors/app-error.ts";
import { CODES } from "../../shared/platform/errors/codes.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { type Job, noOffer } from "./offer/catalog.ts";
import { quoteHeaders } from "./offer/operator-quote.ts";
import type { RequestedJobs } from "./offer/requested-jobs.ts";
import { hasPayment } from "./payment/header.ts";
import { UnfitInput } from "./payment/input.ts";
import { OpenPaymentError } from "./payment/outcome.ts";
import type { Challenge } from "./routes/challenge.ts";
import type { DryRun } from "./routes/dry-run.ts";
import type { PayJob, PaymentAttempt } from "./routes/pay-job.ts";

type HandlerDeps = RefuseDeps & {
  payJob: PayJob;
  dryRun: DryRun;
  /** The JSON that lists the jobs, by the request's target. */
  listJobs: (target: string) => Buffer;
  priceOf: (ids: JobIds) => object;
  schemaOf: (ids: JobIds) => object;
  answerCall: (req: IncomingMessage, res: ServerResponse, route: CallRoute) => Promise<void>;
  answerCallbackKeys: OpsRoutes;
  readiness: () => Readiness;
  metadataPrefix: string;
};

/** Matches the paths of jobs and calls, and that of the list, as they came; Express answers everything else. */
export function createHandler(deps: HandlerDeps): RequestListener {
  const { challenge, payJob, dryRun, listJobs, priceOf, schemaOf } = deps;
  const { answerCall, clock } = deps;
  const refuse = createRefuse(deps);
  const others = createOthers(deps.readiness, deps.answerCallbackKeys);
  const headers = allowedHeaders(deps.metadataPrefix);
  const answerPreflight = createPreflight({ methods: ["GET", "POST"], headers });

  /** Answers at once, if it can: most requests are of this kind. */
  function askForPayment(req: IncomingMessage, res: ServerResponse, ids: JobIds): void {
    try {
      challenge.ask(req, res, ids)?.catch((thrown) => refuseUnpaid(req, res, ids, thrown));
    } catch (thrown) {
      refuseUnpaid(req, res, ids, thrown);
    }
  }

  function refuseUnpaid(req: IncomingMessage, res: ServerResponse, ids: JobIds, thrown: unknown): void {
    res.setHeaders(CORS_HEADER_MAP);
    refuse(req, res, thrown, ids);
  }

  async function answer(req: IncomingMessage, res: ServerResponse, route: Route): Promise<void> {
    let attempt: PaymentAttempt | undefined;
    try {
      res.setHeaders(CORS_HEADER_MAP);
      if (req.method === "OPTIONS") return answerPreflight(res);
      assertMethod(req, res, route);
      switch (route.kind) {
        case "job":
          attempt = { ids: route, startedAt: clock(), signed: undefined };
          return await payJob.answer(req, res, attempt);
        case "dry_run":
          return sendUnread(req, res, await dryRun.answer(req, res, route));
        case "list":
          return sendJson(res, listJobs(req.url ?? ""));
        case "price":
          return sendJson(res, JSON.stringify(priceOf(route)));
        case "schema":
          return sendJson(res, JSON.stringify(schemaOf(route)), "application/schema+json");
        case "call":
          return await answerCall(req, res, route);
      }
    } catch (thrown) {
      refuse(req, res, thrown, "serviceId" in route ? route : undefined, attempt);
    }
  }

  return (req, res) => {
    const route = parseRoute(rawPath(req.url ?? ""));
    if (route === undefined) {
      res.setHeaders(CORS_HEADER_MAP);
      others(req, res);
    } else if (isUnpaid(req, route)) askForPayment(req, res, route);
    else void answer(req, res, route);
  };
}

/** Everything else: the health of the gateway, the public keys of callbacks, and a 404. */
function createOthers(readiness: () => Readiness, answerCallbackKeys: OpsRoutes): RequestListener {
  const app = bareApp();
  onlyGet(app, CALLBACK_KEYS_PATH, answerCallbackKeys);
  app.use(probes(readiness, "/x402/health"));
  return serve(app);
}

/** What a request's raw path names. */
type Route = ({ kind: "job" | "price" | "schema" | "dry_run" } & JobIds) | CallRoute | { kind: "list" };

/** Ids in their one decimal form: no sign, no padding, nothing encoded. */
const JOB = /^\/x402\/jobs\/(0|[1-9]\d{0,15})\/(0|[1-9]\d{0,9})(\/price|\/schema|\/auth-dry-run)?$/;
const LIST = "/x402";
const parseCallRoute = createParseCallRoute("x402");

const ACTIONS = { "/price": "price", "/schema": "schema", "/auth-dry-run": "dry_run" } as const;

/** Parses the ids of a raw path, once; undefined if it names no job, no call and not the list. */
function parseRoute(path: string): Route | undefined {
  if (path === LIST) return { kind: "list" };
  const [, service, index, action] = JOB.exec(path) ?? [];
  if (service === undefined || index === undefined) return parseCallRoute(path);
  const ids = { serviceId: Number(service), jobIndex: Number(index) };
  if (!Number.isSafeInteger(ids.serviceId) || ids.jobIndex > JOB_INDEX_MAX) return undefined;
  return { kind: action === undefined ? "job" : ACTIONS[action as keyof typeof ACTIONS], ...ids };
}

function isUnpaid(req: IncomingMessage, route: Route): route is Route & JobIds {
  return route.kind === "job" && req.method === "POST" && !hasPayment(req);
}

function assertMethod({ method }: IncomingMessage, res: ServerResponse, { kind }: Route): void {
  const wanted = kind === "job" || kind === "dry_run" ? "POST" : "GET";
  if (method === wanted || (wanted === "GET" && method === "HEAD")) return;
  res.setHeader("Allow", wanted === "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS");
  const why = kind === "job" ? ": buy a job with POST; the body is its input, and may be empty" : "";
  throw new AppError("request.method_not_allowed", {
    reason: `${method}`,
    publicDetail: `use ${wanted}${why}`,
  });
}

type RefuseDeps = {
  challenge: Challenge;
  requestedJobs: RequestedJobs;
  statusUrlOf: (callId: string) => string;
  clock: Clock;
  refusals: RefusalLog;
};

/**
 * Answers what any route throws: with a problem document, or with a new 402 if a payment cannot be taken. The refusal of a
 * payment is logged (not each of a flood), and tells where a payment whose outcome is open can be followed.
 */
function createRefuse({ challenge, requestedJobs, statusUrlOf, clock, refusals }: RefuseDeps) {
  /** The job that a 402 offers again; undefined if it is not sold, or the operator's quote is not honoured. */
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
      challenge.askAgain(req, res, job, { code: error.code, detail: error.publicDetail });
    } else {
      const statusUrl = attempt && error instanceof OpenPaymentError ? statusUrlOf(error.callId) : undefined;
      sendProblem(req, res, error, toExtra(error, ids, statusUrl));
    }
    return error;
  }

  return function refuse(
    req: IncomingMessage,
    res: ServerResponse,
    thrown: unknown,
    ids: JobIds | undefined,
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
      // Thrown further it would end the process, and with it the settlements under way.
      sendProblem(req, res, toAppError(unforeseen));
    }
  };
}

/** A 402 with nothing to offer becomes `price.unavailable`. Only `payment.void` stays: it is about this payment. */
function withOffer(refusal: AppError, job: Job | undefined): AppError {
  if (job === undefined || refusal.code === "payment.void") return refusal;
  return noOffer(job) ?? refusal;
}

/** What a 402 or a 412 refuses is offered anew. */
function isOfferedAgain({ code }: AppError): boolean {
  return CODES[code].status === 402 || code === "payment.allowance_required";
}

function toExtra(error: AppError, ids: JobIds | undefined, statusUrl: string | undefined) {
  const isOfJob = ids !== undefined && error.code.startsWith("job.");
  return {
    headers: statusUrl === undefined ? {} : { Location: statusUrl },
    members: {
      ...(isOfJob && { service_id: ids.serviceId, job_index: ids.jobIndex }),
      ...(statusUrl !== undefined && { status_url: statusUrl }),
      ...(error instanceof UnfitInput && {
        errors: [{ detail: error.mismatch.what, pointer: error.mismatch.pointer }],
      }),
    },
  };
}

/** Answers a request whose body may be unread. */
function sendUnread(req: IncomingMessage, res: ServerResponse, value: object): void {
  leaveUnread(req, res);
  sendJson(res, JSON.stringify(value));
}

function sendJson(res: ServerResponse, body: string | Buffer, type = "application/json"): void {
  res.writeHead(200, {
    ...COMMON_HEADERS,
    "Content-Type": type,
    "Content-Length": Buffer.byteLength(body),
  });
  res.end(body);
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

/** Any page may buy. */
export const CORS_HEADERS = corsHeaders(EXPOSED);

/** A page that buys can also read its mistakes: a 404, a 405. */
const CORS_HEADER_MAP = new Map(Object.entries(CORS_HEADERS));

/**
 * `Access-Control-Expose-Headers` is a response header, and yet `@x402/fetch` sends it with its requests. The last one means nothing here;
 * libraries and proxies on a page's side add it.
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

/** The headers that a page may send. */
function allowedHeaders(metadataPrefix: string): string[] {
  const { caller } = platformKeys(metadataPrefix);
  const delegated = ["", "-NONCE", "-SIG", "-EXPIRY"].map((part) => `${caller}${part}`);
  return [...ALLOWED, ...delegated, ...quoteHeaders(metadataPrefix), ...callbackHeaders(metadataPrefix)];
}
