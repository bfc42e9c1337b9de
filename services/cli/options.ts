import { readFileSync } from "node:fs";
import { type Command, InvalidArgumentError, Option } from "commander";
import { messageOf } from "../../shared/errors/app-error.ts";
import { isAddress } from "../../shared/ethereum/address.ts";
import { EXIT } from "../../shared/lifecycle/run-service.ts";
import { systemClock } from "../../shared/time/clock.ts";

/** The options that more than one command has. */
export function configDir(): Option {
  return new Option("--config-dir <dir>", "where the configuration is")
    .env("POSTERN_CONFIG_DIR")
    .default("config");
}

export function bindAddress(otherwise: string): Option {
  return new Option("--bind-address <host:port>", `where to listen (default: ${otherwise})`);
}

export function opsAddress(otherwise: string): Option {
  return new Option(
    "--ops-address <host:port>",
    `private address of /livez, /readyz and /metrics (default: ops_address in postern.toml, else ${otherwise})`,
  );
}

export function serviceId(): Option {
  return new Option("--service-id <n>", "the service all calls belong to")
    .env("POSTERN_SERVICE_ID")
    .argParser(wholeNumber("a service id"))
    .default(0);
}

/** A port of 127.0.0.1. */
export function port(name: string, otherwise: number, what: string): Option {
  return new Option(`--${name}-port <n>`, `${what}; 0: a free one`)
    .argParser(wholeNumber("a port", { max: 65_535 }))
    .default(otherwise);
}

export function wholeNumber(what: string, { min = 0, max = Number.MAX_SAFE_INTEGER } = {}) {
  return (text: string): number => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    const most = max === Number.MAX_SAFE_INTEGER ? "2^53-1" : max;
    throw new InvalidArgumentError(`${what} is a whole number from ${min} to ${most}`);
  };
}

export function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  throw new InvalidArgumentError("it is not an http or https URL");
}

/** In lower case. */
export function parseAddress(text: string): string {
  if (isAddress(text)) return text.toLowerCase();
  throw new InvalidArgumentError("an address is 0x and 40 hex digits");
}

/** A point in time on the command line (moment.ts), in unix milliseconds. */
export function parseTime(text: string): number {
  const at = parseMoment(text, systemClock());
  if (at !== undefined) return at;
  throw new InvalidArgumentError("a time is an ISO date such as 2026-01-31 or 2026-01-31T18:00, or 2h, 7d");
}

const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

const DATE = /^\d{4}-\d{2}-\d{2}(?<time>T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?<zone>Z|[+-]\d{2}:\d{2})?)?$/;

/** A point in time: an ISO date, UTC unless it names a zone, or how long ago (`90s`, `30m`, `2h`, `7d`, `1w`). */
export function parseMoment(text: string, now: number): number | undefined {
  const ago = /^(?<count>\d{1,9})(?<unit>[smhdw])$/.exec(text)?.groups;
  if (ago) return now - Number(ago["count"]) * UNIT_MS[ago["unit"] as keyof typeof UNIT_MS];
  const date = DATE.exec(text)?.groups;
  if (!date) return undefined;
  const at = Date.parse(date["time"] && !date["zone"] ? `${text}Z` : text);
  return Number.isNaN(at) ? undefined : at;
}

/** A body on the command line: the text itself, or the file that holds it. */
export type BodyOptions = { body?: string; bodyFile?: string };

/** Ends a command that was given both. */
export function assertOneBody(command: Command, { body, bodyFile }: BodyOptions): void {
  if (body === undefined || bodyFile === undefined) return;
  command.error("error: either --body or --body-file", { exitCode: EXIT.usage });
}

/** Undefined where none was given. */
export function readBody({ body, bodyFile }: BodyOptions): Uint8Array | undefined {
  if (bodyFile === undefined) return body === undefined ? undefined : Buffer.from(body);
  try {
    return readFileSync(bodyFile);
  } catch (cause) {
    throw new Error(`the body cannot be read: ${messageOf(cause)}`, { cause });
  }
}
