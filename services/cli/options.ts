import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import { CALL_ID_PREFIX, NOT_A_CALL_ID_PREFIX } from "../../shared/call/call-id.ts";
import { whyNoJobKey } from "../../shared/call/job-ids.ts";
import { isAddress } from "../../shared/chain/address.ts";
import { listenAddressText, readListenAddress } from "../../shared/http/ip/listen-address.ts";
import { type ErrorCode, isErrorCode } from "../../shared/platform/errors/codes.ts";
import { EXIT } from "../../shared/platform/lifecycle/run-service.ts";
import { systemClock } from "../../shared/platform/time/clock.ts";
import { readGate } from "../../shared/queue/queue-name.ts";

/* Options and arguments that several commands share, and the parsers of their values. */
export function configDir(): Option {
  return new Option("--config-dir <dir>", "configuration directory")
    .env("POSTERN_CONFIG_DIR")
    .default("config");
}

/** Option of commands that work on Redis directly by default, and with this option through the HTTP API of a console. */
export function operatorUrl(): Option {
  const what = "use the console at this URL instead of Redis; POSTERN_OPERATOR_TOKEN holds the token";
  return new Option("--operator <url>", what).env("POSTERN_OPERATOR_URL").argParser(parseUrl);
}

export function bindAddress(otherwise: string): Option {
  const what = `address to listen on; a port alone means 127.0.0.1 (default: ${otherwise})`;
  return new Option("--bind-address <host:port>", what).argParser(parseListenAddress);
}

export function opsAddress(otherwise: string): Option {
  return new Option(
    "--ops-address <host:port>",
    `private address for /livez, /readyz and /metrics (default: ops_address in postern.toml, else ${otherwise})`,
  ).argParser(parseListenAddress);
}

/** Parses an address to listen on, and returns it as `host:port`. If only a port is given, the host is 127.0.0.1. */
function parseListenAddress(text: string): string {
  const read = readListenAddress(text);
  return typeof read === "string" ? refuseValue(read, "127.0.0.1:9090") : listenAddressText(read);
}

export function serviceId(): Option {
  return new Option(
    "--service-id <n>",
    "number of the service, which is a group of jobs (default: 0, with a warning)",
  )
    .env("POSTERN_SERVICE_ID")
    .argParser(wholeNumber({ example: 7 }));
}

export function watch(): Option {
  return new Option("--watch", "read the configuration again when its files change");
}

/** Option for a port on 127.0.0.1. */
export function port(name: string, otherwise: number, what: string): Option {
  return new Option(`--${name}-port <n>`, `${what}; 0 uses a free port`)
    .argParser(wholeNumber({ example: otherwise, max: 65_535 }))
    .default(otherwise);
}

/** Option for the start of a time range. `event` names what happened at that time, such as "claimed". */
export function sinceOption(event: string): Option {
  return sinceTime(`${event} at or after this time`);
}

/** Option for the start of a time range, with any description. */
export function sinceTime(what: string): Option {
  const forms = "an ISO date (UTC), or an age such as 90s, 30m, 2h or 7d";
  return new Option("--since <time>", `${what}: ${forms}`).argParser(parseTime);
}

/** Option for the end of a time range. `event` names what happened at that time. */
export function untilOption(event: string): Option {
  return new Option("--until <time>", `${event} at or before this time`).argParser(parseTime);
}

/** Option for a number of entries; 0 means no limit. */
export function limitOption(otherwise: number, what = "print at most n entries; 0 prints all"): Option {
  return new Option("--limit <n>", what).argParser(wholeNumber({ example: 50 })).default(otherwise);
}

/** Option for a duration in seconds. */
export function waitOption(what: string): Option {
  return new Option("--wait <secs>", what)
    .argParser(wholeNumber({ example: 30, max: WAIT_SECS_MAX }))
    .default(120);
}

/** Maximum of --wait: a day, because gateways keep results for a day by default. */
const WAIT_SECS_MAX = 86_400;

/** Whether a text can be a result token: one word of visible ASCII. */
export function isResultToken(text: string): boolean {
  return /^[!-~]{1,1000}$/.test(text);
}

/** The call id in the examples of the help. */
export const CALL = "c_4f1b";

export function callId(): Argument {
  return new Argument("<id>", "id of the call, or a unique prefix of it").argParser(parseCallId);
}

/** Argument for any number of call ids. Duplicates are dropped. */
export function callIds(): Argument {
  return new Argument("[ids...]", "ids of calls, or unique prefixes of them").argParser(collectCallId);
}

/**
 * Argument for one or more jobs. A receiver of callbacks counts as a job here, because it can be paused like one.
 * Duplicates are dropped.
 */
export function jobKeys(): Argument {
  return new Argument("<service/job...>", `jobs, ${JOB_KEYS}`).argParser(
    (text, before: string[] = []): string[] => {
      const gate = parseGate(text);
      return before.includes(gate) ? before : [...before, gate];
    },
  );
}

/** Argument for one job, or one receiver of callbacks. */
export function jobKey(): Argument {
  return new Argument("<service/job>", `job, ${JOB_KEYS}`).argParser(parseGate);
}

const JOB_KEYS =
  "such as 7/1 (service and job); callback/HOST for the callbacks to a receiver, callback for all callbacks";

function parseGate(text: string): string {
  const read = readGate(text);
  return "problem" in read ? refuseValue(read.problem, "7/1") : read.gate;
}

export function parseJobKey(text: string): string {
  const why = whyNoJobKey(text);
  return why === undefined ? text : refuseValue(why, "7/1");
}

/** Collects the call ids of a repeatable argument or option, without duplicates. */
export function collectCallId(text: string, before: string[] = []): string[] {
  const id = parseCallId(text);
  return before.includes(id) ? before : [...before, id];
}

export function parseCallId(text: string): string {
  if (CALL_ID_PREFIX.test(text)) return text;
  return refuseValue(NOT_A_CALL_ID_PREFIX, CALL);
}

export function parseCode(text: string): ErrorCode {
  if (isErrorCode(text)) return text;
  return refuseValue("must be an error code from docs/errors.md", "runner.refused");
}

type WholeNumber = { example: number; min?: number; max?: number };

export function wholeNumber({ example, min = 0, max = Number.MAX_SAFE_INTEGER }: WholeNumber) {
  return (text: string): number => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    const most = max === Number.MAX_SAFE_INTEGER ? "2^53-1" : max;
    return refuseValue(`must be an integer from ${min} to ${most}`, String(example));
  };
}

export function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  return refuseValue("must be an http or https URL", "http://127.0.0.1:9300");
}

/** Checks an address, and returns it in lower case. */
export function parseAddress(text: string): string {
  if (isAddress(text)) return text.toLowerCase();
  return refuseValue("must be an address: 0x and 40 hex digits", "0x7099…");
}

/** Checks a transaction hash, and returns it in lower case. */
export function parseTransaction(text: string): string {
  if (/^0x[0-9a-fA-F]{64}$/.test(text)) return text.toLowerCase();
  return refuseValue("must be a transaction hash: 0x and 64 hex digits", "0x51c2…");
}

function parseTime(text: string): number {
  const at = parseMoment(text, systemClock());
  if (at !== undefined) return at;
  return refuseValue(
    "must be an ISO date, or an age in s, m, h, d or w",
    "2026-01-31, 2026-01-31T18:00 or 2h",
  );
}

const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

const DATE = /^\d{4}-\d{2}-\d{2}(?<time>T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?<zone>Z|[+-]\d{2}:\d{2})?)?$/;

/**
 * Parses an ISO date (UTC unless it names a zone) or an age (`90s`, `30m`, `2h`, `7d`, `1w`). Returns unix
 * milliseconds; undefined for any other text.
 */
export function parseMoment(text: string, now: number): number | undefined {
  const ago = /^(?<count>\d{1,9})(?<unit>[smhdw])$/.exec(text)?.groups;
  if (ago) return now - Number(ago["count"]) * UNIT_MS[ago["unit"] as keyof typeof UNIT_MS];
  const date = DATE.exec(text)?.groups;
  if (!date) return undefined;
  const at = Date.parse(date["time"] && !date["zone"] ? `${text}Z` : text);
  return Number.isNaN(at) ? undefined : at;
}

/** Options of a command that sends a body: the text itself, or a file with it. */
export type BodyOptions = { body?: string; bodyFile?: string };

/** The option --body-file, which excludes --body. */
export function bodyFile(what: string): Option {
  return new Option("--body-file <file>", what).conflicts("body");
}

/** Reports an invalid value of an option or argument. */
export function refuseValue(rule: string, example: string): never {
  throw new InvalidArgumentError(ruleText(rule, example));
}

/** Adds an example to the rule for a value, unless the rule already has one. */
export function ruleText(rule: string, example: string): string {
  return `it ${rule}${rule.includes("such as") ? "" : `; for example ${example}`}`;
}

/**
 * Rewrites commander's messages about invalid values, so that all have one form: the option or argument, the value, and
 * the rule that it breaks.
 */
export function valueErrorText(text: string): string {
  return text
    .replace(/^error: option ('[^']*') argument (?=')/, "error: option $1 value ")
    .replace(
      /^error: command-argument value ('.*') is invalid for argument ('[^']*')\./s,
      "error: argument $2 value $1 is invalid.",
    )
    .replace(/(?<= is invalid)\. (?=it |Allowed )/, ": ")
    .replace(/(?<= is invalid: )Allowed choices are (.*)\.$/m, "it must be one of $1");
}

/** Ends the command because its options cannot be combined. */
export function usageError(command: Command, message: string): never {
  return command.error(`error: ${message}`, { exitCode: EXIT.usage });
}
