import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import { platformKeys } from "../../shared/job-call/job-call.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import type { Fields, Logger } from "../../shared/log/logger.ts";
import { type HttpAnswer, type Job, type JobContext, type JobRequest, toHttpAnswer } from "./router.ts";

type Deps = {
  metadataPrefix: string;
  /** Aborted when this runner waits for handlers no longer. */
  ended: AbortSignal;
  log: Logger;
};

/** Runs a job's handler once. Throws `runner.input_rejected` before it, `runner.handler_failed` for all it throws. */
export type Execute = (job: Job, request: JobRequest, signal?: AbortSignal) => Promise<HttpAnswer>;

export function createExecute({ metadataPrefix, ended, log }: Deps): Execute {
  const serviceKey = platformKeys(metadataPrefix).serviceId.toUpperCase();

  function toContext(job: Job, { callId, jobId, metadata }: JobRequest, signal: AbortSignal): JobContext {
    const bound = withFields(log, { callId, jobId, job: job.name });
    const serviceId = Number(metadata[serviceKey] ?? Number.NaN);
    return {
      serviceId: Number.isSafeInteger(serviceId) ? serviceId : undefined,
      signal,
      log: bound,
      progress: (fields) => bound.info("job.progressed", fields),
    };
  }

  return async function execute(job, request, signal = ended) {
    const run = job.prepare(request);
    try {
      const answer = run(toContext(job, request, signal));
      failpoint("runner.in_handler");
      return toHttpAnswer(await answer);
    } catch (cause) {
      throw new AppError("runner.handler_failed", { reason: messageOf(cause), cause });
    } finally {
      failpoint("runner.after_handler");
    }
  };
}

function withFields(log: Logger, bound: Fields): Logger {
  return {
    info: (event, fields) => log.info(event, { ...fields, ...bound }),
    warn: (event, fields) => log.warn(event, { ...fields, ...bound }),
    error: (event, fields) => log.error(event, { ...fields, ...bound }),
  };
}
