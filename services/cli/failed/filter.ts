import { Option } from "commander";
import { idsOfKey } from "../../../shared/call/job-ids.ts";
import { ORIGINS, type Origin } from "../../../shared/call/origin.ts";
import type { FailedFilter } from "../../../shared/console/failed.ts";
import type { ErrorCode } from "../../../shared/platform/errors/codes.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import type { ProgramCommand } from "../command.ts";
import { collectCallId, parseCode, parseJobKey, sinceOption, untilOption, wholeNumber } from "../options.ts";

/** Options with which `postern failed list`, `replay` and `discard` select failed calls. */
export type FilterOptions = {
  origin?: Origin;
  endpoint?: string;
  serviceId?: number;
  job?: string;
  code?: ErrorCode;
  text?: string;
  since?: number;
  until?: number;
  call?: string[];
  /** 0 means no limit. */
  limit: number;
};

export function addFilterOptions(command: ProgramCommand, limit: Option): ProgramCommand {
  return command
    .addOption(new Option("--origin <origin>", "origin of the call").choices(ORIGINS))
    .option("--endpoint <path>", "endpoint that received the webhook")
    .option("--job <service/job>", "job of the call, such as 7/1", parseJobKey)
    .addOption(
      new Option("--service-id <n>", "service of the job")
        .argParser(wholeNumber({ example: 7 }))
        .conflicts("job"),
    )
    .option("--code <code>", "error code of the failure, such as runner.refused", parseCode)
    .option("--text <text>", "text in the id, reason, endpoint or delivery id of the call")
    .addOption(sinceOption("failed"))
    .addOption(untilOption("failed"))
    .option("--call <id>", "id of the call, or a unique prefix of it; may be repeated", collectCallId)
    .addOption(limit);
}

export function toFilter(options: FilterOptions): FailedFilter & { ids: string[] | undefined } {
  const { origin, endpoint, code, text, since, until, call } = options;
  const job = options.job === undefined ? undefined : idsOfKey(options.job);
  const service = job?.serviceId ?? options.serviceId;
  return {
    origin,
    endpoint,
    service_id: service,
    job_id: job?.jobIndex,
    code,
    text,
    ids: call,
    ...(since !== undefined && { since: toIso(since) }),
    ...(until !== undefined && { until: toIso(until) }),
  };
}

/** Whether the options select only some of the calls. A limit alone does not count as a filter. */
export function isFiltered(options: FilterOptions): boolean {
  return Object.values(toFilter(options)).some((chosen) => chosen !== undefined);
}
