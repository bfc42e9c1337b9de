import { isDeepStrictEqual } from "node:util";
import type { LoggedEvent } from "../../../shared/dev/process.ts";

const { stdout, env } = process;
const hasColour = stdout.isTTY === true && env["NO_COLOR"] === undefined;
/** Maximum number of columns of a printed log line or output line of a command. Longer lines are cut. */
const QUOTE_COLUMNS = Math.max(2, (stdout.columns || 120) - 7);
const STYLES = { bold: 1, dim: 2, red: 31, green: 32 } as const;

let isMuted = false;

/** Prints the demo, line by line, and counts its checks. A statement is printed as true only if its check has passed. */
export const show = {
  counts: { chapters: 0, checks: 0, wrong: 0 },

  /** Prints the title of a chapter and counts the chapter. */
  chapter(title: string): void {
    show.counts.chapters += 1;
    show.print(`\n${styled("bold", `${show.counts.chapters}. ${title}`)}`);
  },

  /**
   * Prints the statement if `found` equals `expected`. Otherwise prints the difference, and counts the statement as
   * wrong.
   */
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

  /** Prints a command that can be pasted into a terminal. */
  command: (line: string) => show.print(`   $  ${line}`),

  /** Prints a line from the log of a part. */
  log: (part: string, event: LoggedEvent) => quote(`${part.padEnd(8)} | ${eventLine(event)}`),

  /** Prints the output of a command. */
  output(lines: readonly string[]): void {
    for (const line of lines) quote(`| ${line}`.trimEnd());
  },

  print(...lines: readonly string[]): void {
    if (!isMuted) for (const line of lines) stdout.write(`${line}\n`);
  },

  /** Stops all output, for example after a stop signal. */
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

/**
 * Fields that are not printed, because every log line has them or because they are the same for all calls of the demo.
 */
const LEFT_OUT: readonly string[] = ["level", "time", "service", "pid", "event", "origin"];

/** Writes a logged event as `name key=value ...`. Call ids are shortened. */
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

/** Returns the first digits of a call id, which suffice to distinguish the calls of one demo. */
export function shortId(callId: string): string {
  return `${callId.slice(0, 10)}…`;
}
