import { type IncomingMessage, type RequestListener, type ServerResponse, STATUS_CODES } from "node:http";
import { AppError, messageOf, toAppError } from "../../shared/errors/app-error.ts";
import { CODES } from "../../shared/errors/codes.ts";
import { COMMON_HEADERS, sendProblem } from "../../shared/http/problem.ts";
import { readBody } from "../../shared/http/read-body.ts";
import { explain } from "../../shared/http/readiness.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { DurableRedis } from "../../shared/redis/durable-redis.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { authenticate, authenticateBare, type OfferRules, parseKey, toOffer } from "./authenticate.ts";
import { type createListCalls, type Filter, LISTED_STATES, type ListedState } from "./list-calls.ts";
import { type LongStore, storedAnswer } from "./long-store.ts";
import { draining, notFailed, throttled, unavailable, unknownCall } from "./refusals.ts";
import type { HttpAnswer, Job, Router } from "./router.ts";
import type { Outcome, RunCall } from "./run-call.ts";

type RoutesDeps = {
  jobs: Router;
  durable: DurableRedis;
  listCalls: ReturnType<typeof createListCalls>;
  takeJob: ReturnType<typeof createTakeJob>;
  runAgain: ReturnType<typeof createRunAgain>;
  isDraining: () => boolean;
};

type Route = { method: "GET" | "POST"; serve: (req: IncomingMessage, res: ServerResponse) => unknown };

const JOB_PATH = /^\/jobs\/(0|[1-9][0-9]{0,15})$/;
const CALL_PATH = /^\/calls\/([\x21-\x7e]{1,128})$/;
const RUN_PATH = /^\/calls\/([\x21-\x3e\x40-\x7e]{1,128})\/run$/;
const LIMIT_DEFAULT = 100;
const LIVE = { status: 200, contentType: "text/plain", body: Buffer.from("ok") };

/** The runner's HTTP surface. Paths are matched exactly, on the raw path. */
export function createRoutes({
  jobs,
  durable,
  listCalls,
  takeJob,
  runAgain,
  isDraining,
}: RoutesDeps): RequestListener {
  const fixed: Readonly<Record<string, Route>> = {
    "/livez": { method: "GET", serve: (_req, res) => sendAnswer(res, LIVE) },
    "/readyz": { method: "GET", serve: (_req, res) => showReadiness(res) },
    "/jobs": { method: "GET", serve: (_req, res) => sendJson(res, { jobs: jobs.list().map(toCatalog) }) },
    "/calls": {
      method: "GET",
      serve: async (req, res) => sendJson(res, await listCalls.list(parseFilter(req))),
    },
  };

  function findRoute({ url = "", method }: IncomingMessage): Route | undefined {
    const path = url.split("?", 1)[0] ?? "";
    if (Object.hasOwn(fixed, path)) return fixed[path];
    const job = JOB_PATH.exec(url)?.[1];
    if (job !== undefined && Number.isSafeInteger(Number(job))) {
      return { method: "POST", serve: (req, res) => takeJob(req, res, Number(job)) };
    }
    // A key may itself end in `/run`, and GET reads it.
    return (method !== "GET" && findRun(url)) || findCall(path);
  }

  function findRun(url: string): Route | undefined {
    const id = RUN_PATH.exec(url)?.[1];
    return id === undefined ? undefined : { method: "POST", serve: (req, res) => runAgain(req, res, id) };
  }

  function findCall(path: string): Route | undefined {
    const id = CALL_PATH.exec(path)?.[1];
    return id === undefined ? undefined : { method: "GET", serve: (_req, res) => showCall(res, id) };
  }

  function showReadiness(res: ServerResponse): void {
    const readiness = toReadiness(durable, isDraining());
    sendJson(res, readiness, readiness.status === "ready" ? 200 : 503);
  }

  async function showCall(res: ServerResponse, id: string): Promise<void> {
    const call = await listCalls.one(id);
    if (call === undefined) throw unknownCall(id);
    sendJson(res, call);
  }

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    try {
      const route = findRoute(req);
      if (route === undefined) throw new AppError("request.not_found", { reason: `nothing at ${req.url}` });
      if (req.method === route.method) await route.serve(req, res);
      else sendProblem(req, res, { error: wrongMethod(req), extra: { headers: { Allow: route.method } } });
    } catch (error) {
      sendProblem(req, res, { error: toAppError(error) });
    }
  }

  return (req, res) => void answer(req, res);
}

function toCatalog({ id, name, long }: ReturnType<Router["list"]>[number]) {
  return { id, name, long };
}

/** Whether calls are taken now, and what keeps them from being taken. */
function toReadiness(durable: DurableRedis, isDraining: boolean) {
  const redis = explain(() => durable.server().proof);
  const status = redis.ok && !isDraining ? "ready" : "not ready";
  return { status, redis: redis.text, durability: durable.mode, draining: isDraining };
}

function wrongMethod(req: IncomingMessage): AppError {
  return new AppError("request.method_not_allowed", { reason: `${req.method} ${req.url}` });
}

function parseFilter(req: IncomingMessage): Filter {
  const asked = new URL(req.url ?? "", "http://runner").searchParams;
  const limit = wholeNumber(asked.get("limit"), "limit") ?? LIMIT_DEFAULT;
  const jobId = wholeNumber(asked.get("job_id"), "job_id");
  const state = asked.get("state");
  if (state !== null && !isListedState(state)) throw malformed(`state is one of ${LISTED_STATES.join(", ")}`);
  const after = asked.get("after");
  return {
    limit,
    ...(jobId !== undefined && { jobId }),
    ...(state !== null && { state }),
    ...(after !== null && { after }),
  };
}

function isListedState(text: string): text is ListedState {
  return (LISTED_STATES as readonly string[]).includes(text);
}

function wholeNumber(text: string | null, name: string): number | undefined {
  if (text === null) return undefined;
  if (!/^\d{1,16}$/.test(text)) throw malformed(`${name} is not a whole number`);
  return Number(text);
}

function malformed(detail: string): AppError {
  return AppError.public("request.malformed", detail);
}

type TakeJobDeps = {
  jobs: Router;
  rules: OfferRules;
  runCall: RunCall;
  /** Requests taken at once; the others are told to come again. */
  concurrency: number;
  bodyBytesMax: number;
  isDraining: () => boolean;
  clock: Clock;
  log: Logger;
};

const EVENTS = {
  finished: "job.finished",
  replayed: "job.finished",
  failed: "job.failed",
  stored: "job.stored",
} as const;

/** What is known of a request so far, for its line in the log. */
type About = { jobId: number; callId?: string; job?: string };

/** POST /jobs/{job_id} */
export function createTakeJob(deps: TakeJobDeps) {
  const { rules, runCall, concurrency, bodyBytesMax, isDraining, clock, log } = deps;
  let taken = 0;

  async function take(req: IncomingMessage, res: ServerResponse, about: About): Promise<Outcome> {
    if (isDraining()) throw draining();
    authenticate(req, rules);
    const job = findJob(deps.jobs, about.jobId);
    about.job = job.name;
    const callId = parseKey(req);
    about.callId = callId;
    if (taken >= concurrency) throw throttled(concurrency);
    taken += 1;
    try {
      const body = await readBody(req, res, bodyBytesMax);
      return await runCall(toOffer(req, body, { ...rules, callId, job }));
    } finally {
      taken -= 1;
    }
  }

  return async function takeJob(req: IncomingMessage, res: ServerResponse, jobId: number): Promise<void> {
    const about: About = { jobId };
    const startedAt = clock();
    try {
      const { answer, kind } = await take(req, res, about);
      res.once("finish", () => failpoint("runner.after_answer"));
      sendAnswer(res, answer, { replayed: kind === "replayed" });
      const outcome = {
        ...about,
        status: answer.status,
        ms: clock() - startedAt,
        replayed: kind === "replayed",
      };
      log[kind === "failed" ? "warn" : "info"](EVENTS[kind], outcome);
    } catch (thrown) {
      const error = toAppError(thrown);
      sendProblem(req, res, { error });
      logRefusal(log, error, { ...about, ms: clock() - startedAt });
    }
  };
}

function findJob(jobs: Router, jobId: number): Job {
  const job = jobs.find(jobId);
  if (job === undefined) throw new AppError("runner.job_unknown", { reason: `there is no job ${jobId}` });
  return job;
}

function logRefusal(log: Logger, { code, message: reason }: AppError, about: About & { ms: number }): void {
  const fields = { ...about, status: CODES[code].status, code, reason };
  if (code === "runner.handler_failed" || code === "internal.unexpected") log.error("job.failed", fields);
  else log.warn("job.refused", fields);
}

type RunAgainDeps = {
  rules: OfferRules;
  longStore: LongStore;
  /** A long call waits to be taken. */
  wake: () => void;
  isDraining: () => boolean;
  log: Logger;
};

/**
 * POST /calls/{id}/run: gives a FAILED long call fresh attempts. Its sender was told that the call is in good hands and
 * offers it no more, so this is how an operator has it run once the cause is gone.
 */
export function createRunAgain({ rules, longStore, wake, isDraining, log }: RunAgainDeps) {
  async function store(callId: string): Promise<void> {
    const found = await longStore.again(callId).catch((cause: unknown) => {
      throw unavailable(messageOf(cause), cause);
    });
    if (found === "UNKNOWN") throw unknownCall(callId);
    if (found !== "STORED") throw notFailed(callId, found);
  }

  return async function runAgain(req: IncomingMessage, res: ServerResponse, callId: string): Promise<void> {
    try {
      if (isDraining()) throw draining();
      authenticateBare(req, await readBody(req, res, 0), { ...rules, callId });
      await store(callId);
      wake();
      sendAnswer(res, storedAnswer(callId));
      log.info("job.run_again", { callId });
    } catch (thrown) {
      const error = toAppError(thrown);
      sendProblem(req, res, { error });
      logRunAgainRefused(log, error, callId);
    }
  };
}

function logRunAgainRefused(log: Logger, { code, message: reason }: AppError, callId: string): void {
  log.warn("job.refused", { callId, status: CODES[code].status, code, reason });
}

/** Sends an answer as it stands; to a caller that went away, nothing. */
export function sendAnswer(res: ServerResponse, answer: HttpAnswer, { replayed = false } = {}): void {
  if (res.destroyed) return;
  const { status, contentType, body } = answer;
  res.writeHead(status, STATUS_CODES[status], {
    ...COMMON_HEADERS,
    ...(contentType !== undefined && { "Content-Type": contentType }),
    ...(hasBody(status) && { "Content-Length": body.length }),
    ...(replayed && { "Idempotent-Replayed": "true" }),
  });
  res.end(hasBody(status) ? body : undefined);
}

export function sendJson(res: ServerResponse, value: unknown, status = 200): void {
  const body = Buffer.from(JSON.stringify(value));
  sendAnswer(res, { status, contentType: "application/json", body });
}

/** RFC 9110, section 6.4.1. */
function hasBody(status: number): boolean {
  return status !== 204 && status !== 205 && status !== 304;
}
