import { isDeepStrictEqual } from "node:util";
import type { LoggedEvent } from "../../shared/dev/process.ts";

/** Prints the demo, line by line. Each statement is checked before it is printed. */
export type Show = {
  /** Begins a scenario. */
  scenario(title: string): void;
  say(text: string): void;
  /** Prints the statement if what was found is what was expected; else prints that it is not so, and counts a failure. */
  check(statement: string, found: unknown, expected: unknown): void;
  /** Prints that something expected did not happen, and counts a failure. */
  fail(what: string): void;
  /** Prints a line that a part logged. */
  log(part: string, event: LoggedEvent): void;
  /** Prints the output of a command. */
  output(lines: readonly string[]): void;
  /** How many statements were not so. */
  readonly failures: number;
  /** From now on prints nothing. */
  end(): void;
};

const STYLES = { bold: 1, dim: 2, red: 31, green: 32 } as const;

/** Log lines and the output of commands are cut to the screen's `columns`. */
export function createShow(print: (line: string) => void, colour: boolean, columns: number): Show {
  const styled = (style: keyof typeof STYLES, text: string) =>
    colour ? `\u001b[${STYLES[style]}m${text}\u001b[0m` : text;
  let scenarios = 0;
  let failures = 0;
  let ended = false;
  const put = (line: string): void => {
    if (!ended) print(line);
  };
  const quote = (text: string): void => put(`      ${styled("dim", cut(text, columns - 7))}`);
  const fail = (what: string): void => {
    failures += 1;
    put(`  ${styled("red", "NO")}  ${what}`);
  };
  return {
    scenario(title) {
      scenarios += 1;
      put(`\n${styled("bold", `${scenarios}. ${title}`)}`);
    },
    say: (text) => put(text === "" ? "" : `      ${text}`),
    check(statement, found, expected) {
      if (isDeepStrictEqual(found, expected)) put(`  ${styled("green", "ok")}  ${statement}`);
      else fail(`${statement}: expected ${shown(expected)}, found ${shown(found)}`);
    },
    fail,
    log: (part, event) => quote(`${part.padEnd(8)} | ${eventLine(event)}`),
    output(lines) {
      for (const line of lines) quote(`| ${line}`.trimEnd());
    },
    get failures() {
      return failures;
    },
    end() {
      ended = true;
    },
  };
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(1, width - 1))}…`;
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
}

/** These fields are on every line of a process, or the same for all calls of the demo. */
const LEFT_OUT: readonly string[] = ["level", "time", "service", "pid", "event", "origin"];

/** A logged event as `name key=value ...`, the fields as they were logged, call ids shortened. */
function eventLine(event: LoggedEvent): string {
  const fields = Object.entries(event).filter(([key]) => !LEFT_OUT.includes(key));
  return [event.event, ...fields.map(([key, value]) => `${key}=${toText(value)}`)].join(" ");
}

function toText(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  const text = value.replaceAll(/\bc_[0-9a-f]{32}\b/g, shortId);
  return /\s/.test(text) ? `"${text}"` : text;
}

/** Enough of a call id to tell it from the others of one demo. */
export function shortId(callId: string): string {
  return `${callId.slice(0, 10)}…`;
}

const USDC_DECIMALS = 6;

/** The token's smallest units as USDC, with all decimals. */
export function usdc(units: bigint): string {
  const sign = units < 0n ? "-" : "";
  const digits = String(units < 0n ? -units : units).padStart(USDC_DECIMALS + 1, "0");
  return `${sign}${digits.slice(0, -USDC_DECIMALS)}.${digits.slice(-USDC_DECIMALS)}`;
}
