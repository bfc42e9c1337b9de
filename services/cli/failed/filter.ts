import { type Command, Option } from "commander";
import { idsOfKey } from "../../../shared/call/job-ids.ts";
import { ORIGINS, type Origin } from "../../../shared/call/origin.ts";
import type { FailedFilter } from "../../../shared/console/failed.ts";
import type { ErrorCode } from "../../../shared/platform/errors/codes.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { collectCallId, parseCode, parseJobKey, sinceOption, untilOption, wholeNumber } from "../options.ts";

/** A job, of any service unless it has one. */
type Job = { service?: number; job: number };

/** The options by which `list`, `replay` and `discard` choose calls. */
export type FilterOptions = {
  origin?: Origin;
  endpoint?: string;
  service?: number;
  job?: Job;
  code?: ErrorCode;
  since?: number;
  until?: number;
  id?: string[];
  /** 0: no limit. */
  limit: number;
};

export function addFilterOptions(command: Command, limit: Option): Command {
  return command
    .addOption(new Option("--origin <origin>", "origin of the call").choices(ORIGINS))
    .option("--endpoint <path>", "endpoint that received the webhook")
    .option("--service <n>", "service of the job", wholeNumber(7))
    .option("--job <job>", "job of the call, such as 7/1; 1 alone is job 1 of any service", parseJob)
    .option("--code <code>", "error code of the failure, such as runner.refused", parseCode)
    .addOption(sinceOption("failed"))
    .addOption(untilOption("failed"))
    .option("--id <id>", "id of the call; may be repeated", collectCallId)
    .addOption(limit);
}

export function toFilter(options: FilterOptions): FailedFilter & { ids: string[] | undefined } {
  const { origin, endpoint, job, code, since, until, id } = options;
  const service = job?.service ?? options.service;
  return {
    ...{ origin, endpoint, service_id: service, job_id: job?.job, code, ids: id },
    ...(since !== undefined && { since: toIso(since) }),
    ...(until !== undefined && { until: toIso(until) }),
  };
}

function parseJob(text: string): Job {
  if (!text.includes("/")) return { job: wholeNumber(1)(text) };
  const { serviceId: service, jobIndex: job } = idsOfKey(parseJobKey(text));
  return { service, job };
}

/** Whether the options choose some of the calls. A limit alone does not. */
export function isFiltered(options: FilterOptions): boolean {
  return Object.values(toFilter(options)).some((chosen) => chosen !== undefined);
}
