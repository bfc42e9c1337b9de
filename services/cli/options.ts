import { InvalidArgumentError, Option } from "commander";
import { isAddress } from "../../shared/ethereum/address.ts";
import { systemClock } from "../../shared/time/clock.ts";
import { parseMoment } from "./moment.ts";

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
