import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { AppError, toAppError } from "../../shared/errors/app-error.ts";
import { sendProblem } from "../../shared/http/problem.ts";
import { explain } from "../../shared/http/readiness.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import { type createListCalls, type Filter, LISTED_STATES, type ListedState } from "./list-calls.ts";
import { unknownCall } from "./refusals.ts";
import type { Router } from "./router.ts";
import type { createRunAgain } from "./run-again.ts";
import { sendAnswer, sendJson } from "./send-answer.ts";
import type { createTakeJob } from "./take-job.ts";

type Deps = {
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
}: Deps): RequestListener {
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
