import { type Command, Option } from "commander";
import { ORIGINS, type Origin } from "../../../shared/call/origin.ts";
import type { FailedFilter } from "../../../shared/console/failed.ts";
import type { ErrorCode } from "../../../shared/platform/errors/codes.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { collectCallId, parseCode, sinceOption, untilOption, wholeNumber } from "../options.ts";

/** The options by which `list`, `replay` and `discard` choose calls. */
export type FilterOptions = {
  origin?: Origin;
  endpoint?: string;
  service?: number;
  job?: number;
  code?: ErrorCode;
  since?: number;
  until?: number;
  id?: string[];
  /** 0: no limit. */
  limit: number;
};

export function addFilterOptions(command: Command, limit: Option): Command {
  return command
    .addOption(new Option("--origin <origin>", "source of the call").choices(ORIGINS))
    .option("--endpoint <path>", "endpoint that received the webhook")
    .option("--service <id>", "service of the job", wholeNumber(7))
    .option("--job <id>", "job of the call; without --service, of any service", wholeNumber(1))
    .option("--code <code>", "error code of the failure, such as runner.refused", parseCode)
    .addOption(sinceOption("failed"))
    .addOption(untilOption("failed"))
    .option("--id <id>", "id of the call; may be repeated", collectCallId)
    .addOption(limit);
}

export function toFilter(options: FilterOptions): FailedFilter & { ids: string[] | undefined } {
  const { origin, endpoint, service, job, code, since, until, id } = options;
  return {
    ...{ origin, endpoint, service_id: service, job_id: job, code, ids: id },
    ...(since !== undefined && { since: toIso(since) }),
    ...(until !== undefined && { until: toIso(until) }),
  };
}

/** Whether the options choose some of the calls. A limit alone does not. */
export function isFiltered(options: FilterOptions): boolean {
  return Object.values(toFilter(options)).some((chosen) => chosen !== undefined);
}
