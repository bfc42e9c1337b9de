import { isDeepStrictEqual } from "node:util";
import type { LoggedEvent } from "../../shared/dev/process.ts";

/** Prints the demo, line by line. Each statement is checked before it is printed. */
export type Show = {
  /** Begins a chapter. */
  chapter(title: string): void;
  say(text: string): void;
  /** Prints lines that belong to no chapter. */
  print(...lines: readonly string[]): void;
  /** Prints a command that a terminal takes as it stands. */
  command(line: string): void;
  /** Prints the statement if what was found is what was expected; else prints that it is wrong, and counts it. */
  check(statement: string, found: unknown, expected: unknown): void;
  /** Prints that something expected did not happen, and counts it as wrong. */
  fail(what: string): void;
  /** Prints a line that a part logged. */
  log(part: string, event: LoggedEvent): void;
  /** Prints the output of a command. */
  output(lines: readonly string[]): void;
  /** Counts of what was shown so far. */
  readonly shown: { readonly chapters: number; readonly checks: number; readonly wrong: number };
  /** From now on prints nothing. */
  end(): void;
};

const STYLES = { bold: 1, dim: 2, red: 31, green: 32 } as const;

/** Log lines and the output of commands are cut to the screen's `columns`. */
export function createShow(print: (line: string) => void, colour: boolean, columns: number): Show {
  const styled = (style: keyof typeof STYLES, text: string) =>
    colour ? `\u001b[${STYLES[style]}m${text}\u001b[0m` : text;
  const shown = { chapters: 0, checks: 0, wrong: 0 };
  let ended = false;
  const put = (line: string): void => {
    if (!ended) print(line);
  };
  const quote = (text: string): void => put(`      ${styled("dim", cut(text, columns - 7))}`);
  const fail = (what: string): void => {
    shown.wrong += 1;
    put(`  ${styled("red", "NO")}  ${what}`);
  };
  return {
    chapter(title) {
      shown.chapters += 1;
      put(`\n${styled("bold", `${shown.chapters}. ${title}`)}`);
    },
    print(...lines) {
      for (const line of lines) put(line);
    },
    say: (text) => put(`      ${text}`),
    command: (line) => put(`   $  ${line}`),
    check(statement, found, expected) {
      shown.checks += 1;
      if (isDeepStrictEqual(found, expected)) put(`  ${styled("green", "ok")}  ${statement}`);
      else fail(`${statement}: expected ${toText(expected)}, found ${toText(found)}`);
    },
    fail,
    log: (part, event) => quote(`${part.padEnd(8)} | ${eventLine(event)}`),
    output(lines) {
      for (const line of lines) quote(`| ${line}`.trimEnd());
    },
    shown,
    end() {
      ended = true;
    },
  };
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(1, width - 1))}…`;
}

/** These fields are on every line of a process, or the same for all calls of the demo. */
const LEFT_OUT: readonly string[] = ["level", "time", "service", "pid", "event", "origin"];

/** A logged event as `name key=value ...`, the fields as they were logged, call ids shortened. */
function eventLine(event: LoggedEvent): string {
  const fields = Object.entries(event).filter(([key]) => !LEFT_OUT.includes(key));
  return [event.event, ...fields.map(([key, value]) => `${key}=${toWord(value)}`)].join(" ");
}

function toWord(value: unknown): string {
  const text = toText(value).replaceAll(/\bc_[0-9a-f]{32}\b/g, shortId);
  return typeof value === "string" && /\s/.test(text) ? `"${text}"` : text;
}

function toText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
}

/** The first digits of a call id: enough to distinguish the calls of one demo. */
export function shortId(callId: string): string {
  return `${callId.slice(0, 10)}…`;
}
