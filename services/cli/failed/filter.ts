import { type Command, InvalidArgumentError, Option } from "commander";
import { type ErrorCode, isErrorCode } from "../../../shared/errors/codes.ts";
import { CALL_ID } from "../../../shared/job-call/call-id.ts";
import { ORIGINS, type Origin } from "../../../shared/job-call/job-call.ts";
import type { CallFilter } from "../../../shared/queue/failed-calls.ts";
import { shellQuote } from "../../../shared/text/shell-quote.ts";
import { parseTime, wholeNumber } from "../options.ts";
import { toIso } from "../text.ts";

/** What `list`, `replay` and `discard` choose calls by. */
export type FilterOptions = {
  origin?: Origin;
  endpoint?: string;
  job?: number;
  code?: ErrorCode;
  since?: number;
  until?: number;
  id?: string[];
  /** 0: no limit. */
  limit: number;
};

export function addFilterOptions(command: Command, { limit }: { limit: number }): Command {
  return command
    .addOption(new Option("--origin <origin>", "the queue it came by").choices(ORIGINS))
    .option("--endpoint <path>", "the webhook path it came in by")
    .option("--job <id>", "the job it is for", wholeNumber("a job id"))
    .option("--code <code>", "the error it failed with, e.g. runner.refused", parseCode)
    .option("--since <time>", "failed at or after: an ISO date (UTC), or 90s, 30m, 2h, 7d ago", parseTime)
    .option("--until <time>", "failed at or before", parseTime)
    .option("--id <id>", "this call; may be repeated", collectId)
    .option("--limit <n>", "at most so many; 0 for all", wholeNumber("a limit"), limit);
}

export function toFilter(options: FilterOptions): CallFilter {
  const { origin, endpoint, job, code, since, until, id } = options;
  return { origin, endpoint, jobId: job, code, since, until, ids: id };
}

/** Whether anything is chosen by; a limit alone chooses nothing. */
export function isFiltered(options: FilterOptions): boolean {
  return selectionWords(options).length > 0;
}

/** The options as words of a command line that chooses the same calls. */
export function selectionWords({ id, origin, endpoint, job, code, since, until }: FilterOptions): string[] {
  const given: [string, string | undefined][] = [
    ["--origin", origin],
    ["--endpoint", endpoint],
    ["--job", job?.toString()],
    ["--code", code],
    ["--since", since === undefined ? undefined : toIso(since)],
    ["--until", until === undefined ? undefined : toIso(until)],
  ];
  const words = given.flatMap(([flag, value]) => (value === undefined ? [] : [flag, value]));
  return [...(id ?? []), ...words];
}

/** A line that a shell reads as these words. */
export function shellLine(words: readonly string[]): string {
  return words.map(shellQuote).join(" ");
}

export function parseId(text: string): string {
  if (CALL_ID.test(text)) return text;
  throw new InvalidArgumentError("a call id is c_ and 32 lower-case hex digits");
}

function collectId(text: string, before: string[] = []): string[] {
  const id = parseId(text);
  return before.includes(id) ? before : [...before, id];
}

function parseCode(text: string): ErrorCode {
  if (isErrorCode(text)) return text;
  throw new InvalidArgumentError("there is no such error code; README.md lists them");
}
