import { type IncomingMessage, type RequestListener, type ServerResponse, STATUS_CODES } from "node:http";
import { WEBHOOK_EVENT, WEBHOOK_EVENT_UTF8 } from "../../shared/call/job-call.ts";
import { COMMON_HEADERS } from "../../shared/http/answer.ts";
import { markAuthenticated } from "../../shared/http/authenticated.ts";
import { readBody } from "../../shared/http/body.ts";
import type { Readiness } from "../../shared/http/readiness.ts";
import { assertNoQuery, nothingAt, type Params, type Route, serveRoutes } from "../../shared/http/router.ts";
import { AppError, toAppError } from "../../shared/platform/errors/app-error.ts";
import { CODES } from "../../shared/platform/errors/codes.ts";
import { failpoint } from "../../shared/platform/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { parseKey, type RequestChecks } from "./authenticate.ts";
import { type ListCalls, parseFilter } from "./list-calls.ts";
import type { LongStore } from "./long-store.ts";
import { longCallAnswer } from "./remembered-answer.ts";
import type { HttpAnswer, Job, Router } from "./router.ts";
import type { Outcome, RunCall } from "./run-call.ts";

/**
 * Patterns of path parameters. A job id must be a decimal number without leading zeros, so that each job has only one path. A
 * call id is an idempotency key, which its sender chooses and which may contain slashes.
 */
const SHAPES = { job_id: /0|[1-9][0-9]{0,15}/, call_id: /[\x21-\x7e]{1,128}/ };
const LIVE = { status: 200, contentType: "text/plain", body: Buffer.from("ok") };

/**
 * Creates the listener that serves the runner's HTTP routes. Paths must match exactly as they were received. The listener
 * also answers if a route throws an error.
 */
export function createRoutes({
  jobs,
  readiness,
  listCalls,
  takeJob,
  runAgain,
}: {
  jobs: Router;
  /** Returns whether calls are accepted now, or the reason why not. */
  readiness: () => Readiness;
  listCalls: ListCalls;
  takeJob: TakeJob;
  runAgain: RunAgain;
}): RequestListener {
  const routes: Route[] = [
    { method: "GET", path: "/livez", serve: (_req, res) => sendAnswer(res, LIVE) },
    { method: "GET", path: "/readyz", serve: showReadiness },
    { method: "GET", path: "/jobs", serve: showJobs },
    { method: "POST", path: "/jobs/{job_id}", serve: takeJobAt },
    { method: "GET", path: "/calls", serve: showCalls },
    { method: "GET", path: "/calls/{call_id}", serve: showCall },
    { method: "POST", path: "/calls/{call_id}/run", serve: runAgainAt },
    // A call id may itself end in `/run`, because it may contain slashes. A GET of such a path shows the call with that id.
    {
      method: "GET",
      path: "/calls/{call_id}/run",
      serve: (req, res, { call_id }) => showCall(req, res, { call_id: `${call_id}/run` }),
    },
  ];

  async function takeJobAt(req: IncomingMessage, res: ServerResponse, { job_id }: Params): Promise<void> {
    assertNoQuery(req);
    const id = Number(job_id);
    if (!Number.isSafeInteger(id)) throw nothingAt(req);
    await takeJob(req, res, id);
  }

  async function runAgainAt(
    req: IncomingMessage,
    res: ServerResponse,
    { call_id = "" }: Params,
  ): Promise<void> {
    assertNoQuery(req);
    await runAgain(req, res, call_id);
  }

  function showReadiness(_req: IncomingMessage, res: ServerResponse): void {
    const { ready, checks } = readiness();
    sendJson(res, { status: ready ? "ready" : "not ready", ...checks }, ready ? 200 : 503);
  }

  function showJobs(_req: IncomingMessage, res: ServerResponse): void {
    sendJson(res, { jobs: jobs.list().map(({ id, name, long }) => ({ id, name, long })) });
  }

  async function showCalls(req: IncomingMessage, res: ServerResponse): Promise<void> {
    sendJson(res, await listCalls.list(parseFilter(req.url ?? "")));
  }

  async function showCall(
    _req: IncomingMessage,
    res: ServerResponse,
    { call_id: id = "" }: Params,
  ): Promise<void> {
    const call = await listCalls.one(id);
    if (call === undefined) throw unknownCall(id);
    sendJson(res, call);
  }

  return serveRoutes(routes, { shapes: SHAPES });
}

const EVENTS = {
  finished: "job.finished",
  replayed: "job.finished",
  failed: "job.failed",
  stored: "job.stored",
} as const;

/** Fields of a request's log line, as far as they are known. */
type RequestFields = {
  jobId: number;
  callId?: string;
  job?: string;
  /** Type of a webhook's event, as the sender wrote it. Undefined for other calls. */
  eventType?: string | undefined;
};

type TakeJob = ReturnType<typeof createTakeJob>["takeJob"];

/**
 * Creates the function that serves POST /jobs/{job_id}: it authenticates a request, runs its call or repeats the call's first
 * answer, and logs one line.
 */
export function createTakeJob({
  jobs,
  checks,
  runCall,
  concurrency,
  bodyBytesMax,
  isDraining,
  clock,
  log,
}: {
  jobs: Router;
  checks: RequestChecks;
  runCall: RunCall;
  /** Maximum number of requests in flight. Further requests are refused with Retry-After. */
  concurrency: number;
  bodyBytesMax: number;
  isDraining: () => boolean;
  clock: Clock;
  log: Logger;
}) {
  let taken = 0;
  let onIdle: (() => void)[] = [];

  function noteEnded(): void {
    taken -= 1;
    if (taken > 0) return;
    for (const resolve of onIdle) resolve();
    onIdle = [];
  }

  async function take(req: IncomingMessage, res: ServerResponse, fields: RequestFields): Promise<Outcome> {
    if (isDraining()) throw draining();
    checks.authenticate(req);
    markAuthenticated(req);
    const job = findJob(jobs, fields.jobId);
    fields.job = job.name;
    const callId = parseKey(req);
    fields.callId = callId;
    if (taken >= concurrency) throw throttled(concurrency);
    taken += 1;
    try {
      const body = await readBody(req, res, bodyBytesMax);
      const checked = checks.toChecked(req, body, callId, job);
      fields.eventType = checked.metadata[WEBHOOK_EVENT] ?? checked.metadata[WEBHOOK_EVENT_UTF8];
      return await runCall(checked);
    } finally {
      noteEnded();
    }
  }

  function logRefused(fields: RequestFields & { ms: number }, { code, message: reason }: AppError): void {
    const line = { ...fields, status: CODES[code].status, code, reason };
    if (code === "runner.handler_failed" || code === "internal.unexpected") log.error("job.failed", line);
    else log.warn("job.refused", line);
  }

  async function takeJob(req: IncomingMessage, res: ServerResponse, jobId: number): Promise<void> {
    const fields: RequestFields = { jobId };
    const startedAt = clock();
    try {
      const { answer, kind } = await take(req, res, fields);
      const replayed = kind === "replayed";
      res.once("finish", () => failpoint("runner.after_answer"));
      sendAnswer(res, answer, replayed);
      const line = { ...fields, status: answer.status, ms: clock() - startedAt, replayed };
      log[kind === "failed" ? "warn" : "info"](EVENTS[kind], line);
    } catch (thrown) {
      const error = toAppError(thrown);
      logRefused({ ...fields, ms: clock() - startedAt }, error);
      throw error;
    }
  }

  return {
    takeJob,
    /** Returns the number of requests whose body is being read, or whose call is being run or stored. */
    inFlight: () => taken,
    /** Resolves once `inFlight` is 0. A request counts even after its client has disconnected. */
    idle: () => new Promise<void>((resolve) => (taken === 0 ? resolve() : onIdle.push(resolve))),
  };
}

function findJob(jobs: Router, jobId: number): Job {
  const job = jobs.find(jobId);
  if (job === undefined) throw new AppError("runner.job_unknown", { reason: `there is no job ${jobId}` });
  return job;
}

function throttled(concurrency: number): AppError {
  return new AppError("runner.throttled", {
    reason: `${concurrency} calls are already running`,
    retryAfterMs: 1000,
  });
}

type RunAgain = ReturnType<typeof createRunAgain>;

/**
 * Creates the function that serves POST /calls/{id}/run. It gives a FAILED long call new attempts, for an operator who has
 * fixed the cause of the failure. The call's sender would not send it again, because it got a 202.
 */
export function createRunAgain({
  checks,
  longStore,
  wake,
  isDraining,
  log,
}: {
  checks: RequestChecks;
  longStore: LongStore;
  /** Makes this runner check now for long calls that wait. */
  wake: () => void;
  isDraining: () => boolean;
  log: Logger;
}) {
  return async function runAgain(req: IncomingMessage, res: ServerResponse, callId: string): Promise<void> {
    try {
      if (isDraining()) throw draining();
      await readBody(req, res, 0);
      checks.authenticateBare(req, callId);
      const result = await longStore.runAgain(callId);
      if (result === "UNKNOWN") throw unknownCall(callId);
      if (result !== "STORED") throw notFailed(callId, result);
      wake();
      sendAnswer(res, longCallAnswer(callId));
      log.info("job.run_again", { callId });
    } catch (thrown) {
      const error = toAppError(thrown);
      const { code, message: reason } = error;
      log.warn("job.refused", { callId, status: CODES[code].status, code, reason });
      throw error;
    }
  };
}

function unknownCall(callId: string): AppError {
  return new AppError("request.not_found", { reason: `call ${callId} is not stored here` });
}

function notFailed(callId: string, found: string): AppError {
  const detail = `only a failed long call can be run again; this call is ${found.toLowerCase()}`;
  return new AppError("runner.busy", { reason: `${callId}: ${detail}`, publicDetail: detail });
}

function draining(): AppError {
  return new AppError("service.draining", { reason: "the runner is stopping", retryAfterMs: 1000 });
}

/**
 * Sends an answer; does nothing if the client has gone. The body of a remembered answer may no longer be kept. Then it sends
 * the status, the body's digest (RFC 9530), and a header that says that the body was forgotten.
 */
function sendAnswer(res: ServerResponse, answer: HttpAnswer, replayed = false): void {
  const { status, contentType, body, forgotten } = answer;
  if (res.destroyed) return;
  const hasBody = mayHaveBody(status);
  res.writeHead(status, STATUS_CODES[status], {
    ...COMMON_HEADERS,
    ...(contentType !== undefined && { "Content-Type": contentType }),
    ...(hasBody && { "Content-Length": body.length }),
    ...(replayed && { "Idempotent-Replayed": "true" }),
    ...(forgotten !== undefined && { "Repr-Digest": forgotten, "Idempotent-Body": "forgotten" }),
  });
  res.end(hasBody ? body : undefined);
}

/** Returns whether an answer with this status may have a body (RFC 9110, section 6.4.1). */
function mayHaveBody(status: number): boolean {
  return status !== 204 && status !== 205 && status !== 304;
}

function sendJson(res: ServerResponse, value: unknown, status = 200): void {
  const body = Buffer.from(JSON.stringify(value));
  sendAnswer(res, { status, contentType: "application/json", body });
}
