import { isDeepStrictEqual } from "node:util";
import type { LoggedEvent } from "../../../shared/dev/process.ts";

const { stdout, env } = process;
const hasColour = stdout.isTTY === true && env["NO_COLOR"] === undefined;
/** Log lines and the output of commands are cut to this width. */
const QUOTE_COLUMNS = Math.max(2, (stdout.columns || 120) - 7);
const STYLES = { bold: 1, dim: 2, red: 31, green: 32 } as const;

let isMuted = false;

/** Prints the demo, line by line. Each statement is checked before it is printed. */
export const show = {
  counts: { chapters: 0, checks: 0, wrong: 0 },

  /** Begins a chapter. */
  chapter(title: string): void {
    show.counts.chapters += 1;
    show.print(`\n${styled("bold", `${show.counts.chapters}. ${title}`)}`);
  },

  /** Prints the statement if what was found is what was expected. Otherwise prints that it is wrong, and counts it. */
  check(statement: string, found: unknown, expected: unknown): void {
    show.counts.checks += 1;
    if (isDeepStrictEqual(found, expected)) show.print(`  ${styled("green", "ok")}  ${statement}`);
    else show.fail(`${statement}: expected ${toText(expected)}, found ${toText(found)}`);
  },

  /** Prints that something expected did not happen, and counts it as wrong. */
  fail(what: string): void {
    show.counts.wrong += 1;
    show.print(`  ${styled("red", "NO")}  ${what}`);
  },

  say: (text: string) => show.print(`      ${text}`),

  /** Prints a command that a terminal takes as it stands. */
  command: (line: string) => show.print(`   $  ${line}`),

  /** Prints a line that a part logged. */
  log: (part: string, event: LoggedEvent) => quote(`${part.padEnd(8)} | ${eventLine(event)}`),

  /** Prints the output of a command. */
  output(lines: readonly string[]): void {
    for (const line of lines) quote(`| ${line}`.trimEnd());
  },

  print(...lines: readonly string[]): void {
    if (!isMuted) for (const line of lines) stdout.write(`${line}\n`);
  },

  /** From now on nothing is printed. */
  mute(): void {
    isMuted = true;
  },
};

function quote(text: string): void {
  const shown = text.length <= QUOTE_COLUMNS ? text : `${text.slice(0, QUOTE_COLUMNS - 1)}…`;
  show.say(styled("dim", shown));
}

function styled(style: keyof typeof STYLES, text: string): string {
  return hasColour ? `\u001b[${STYLES[style]}m${text}\u001b[0m` : text;
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
