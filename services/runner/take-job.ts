import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError, toAppError } from "../../shared/errors/app-error.ts";
import { CODES } from "../../shared/errors/codes.ts";
import { readBody } from "../../shared/http/body.ts";
import { sendProblem } from "../../shared/http/problem.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { authenticate, type OfferRules, parseKey, toOffer } from "./offer.ts";
import { draining, throttled } from "./refusals.ts";
import type { Job, Router } from "./router.ts";
import type { Outcome, RunCall } from "./run-call.ts";
import { sendAnswer } from "./send-answer.ts";

type Deps = {
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
export function createTakeJob(deps: Deps) {
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
      sendProblem(req, res, error);
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
