import { hostname, userInfo } from "node:os";
import type { Env } from "../../shared/config/secrets.ts";

/** Properties and functions of the terminal in which a command runs. */
export type Terminal = {
  /** Width of the screen to which stdout goes; undefined if it goes elsewhere. */
  columns: number | undefined;
  /** Whether text on the output may have colours. */
  colours: { stdout: boolean; stderr: boolean };
  /** Whether stderr is a screen on which a progress bar can redraw its line. */
  drawsProgress: boolean;
  /** Overwrites the last line of the screen on stderr. */
  redraw(line: string): void;
  /** Whether stdin is a terminal, so that the operator can answer questions. */
  canAsk: boolean;
  /** Asks a question. Resolves with the trimmed answer; empty after Ctrl-C or Ctrl-D. */
  ask(question: string): Promise<string>;
  /** Asks a question for which an empty answer has a meaning. Resolves with undefined after Ctrl-C or Ctrl-D. */
  prompt(question: string): Promise<string | undefined>;
  writeBytes(bytes: Uint8Array): void;
};

type Surroundings = {
  stdin: NodeJS.ReadStream;
  stdout: NodeJS.WriteStream;
  stderr: NodeJS.WriteStream;
  env: Env;
};

export function createTerminal({ stdin, stdout, stderr, env }: Surroundings): Terminal {
  return {
    columns: stdout.isTTY === true ? widthOf(stdout, env) : undefined,
    colours: { stdout: hasColours(stdout, env), stderr: hasColours(stderr, env) },
    drawsProgress: stderr.isTTY === true,
    redraw(line) {
      stderr.write(`\r\x1b[K${line.slice(0, widthOf(stderr, env) - 1)}`);
    },
    canAsk: stdin.isTTY === true,
    ask: async (question) => (await prompt(question)) ?? "",
    prompt,
    writeBytes: (bytes) => void stdout.write(bytes),
  };

  async function prompt(question: string): Promise<string | undefined> {
    const { createInterface } = await import("node:readline/promises");
    const lines = createInterface({ input: stdin, output: stderr });
    const leave = new AbortController();
    lines.on("SIGINT", () => leave.abort());
    lines.on("close", () => leave.abort());
    try {
      return (await lines.question(question, { signal: leave.signal })).trim();
    } catch (error) {
      if (!leave.signal.aborted) throw error;
      return undefined;
    } finally {
      lines.close();
    }
  }
}

/** Width to assume for a screen that does not report its width. */
const COLUMNS_OTHERWISE = 80;

/** Returns the width of the screen. The environment variable COLUMNS has priority, as in other programs. */
function widthOf({ columns }: NodeJS.WriteStream, env: Env): number {
  const given = Number(env["COLUMNS"]);
  return Number.isInteger(given) && given > 0 ? given : columns || COLUMNS_OTHERWISE;
}

/**
 * Whether an output has colours. FORCE_COLOR (force-color.org) has priority over NO_COLOR (no-color.org), as in Node
 * itself. Without either variable, a screen has colours.
 */
function hasColours({ isTTY }: NodeJS.WriteStream, env: Env): boolean {
  const { FORCE_COLOR: forced, NO_COLOR: unwanted, TERM: term } = env;
  if (forced !== undefined && forced !== "") return forced !== "0" && forced !== "false";
  if (unwanted !== undefined && unwanted !== "") return false;
  return isTTY === true && term !== "dumb";
}

/** Asks a question. Only `y` and `yes` confirm. */
export async function isConfirmed(terminal: Terminal, question: string): Promise<boolean> {
  return /^y(es)?$/i.test(await terminal.ask(`${question} [y/N] `));
}

type Asking = { terminal: Terminal; say: (text: string) => void };

/**
 * Whether a command may make its change. Asks the operator to confirm, unless --yes was given. If the operator does not
 * confirm, prints that nothing was changed.
 */
export async function mayChange(
  { terminal, say }: Asking,
  { yes = false }: { yes?: boolean },
  question: string,
): Promise<boolean> {
  if (yes || (await isConfirmed(terminal, question))) return true;
  say("nothing was changed\n");
  return false;
}

/**
 * Returns the name of the user at this terminal for the audit log, as `user@host`. In a container the user may have no
 * name. Then the number takes its place, as in `uid 1000@host`.
 */
export function operatorName(): string {
  return `${userName()}@${hostname()}`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}
