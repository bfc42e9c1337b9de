import { hostname, userInfo } from "node:os";
import { createInterface } from "node:readline/promises";

/** What a command may know about the terminal it runs in. */
export type Terminal = {
  /** The width of the screen that stdout goes to; undefined when it goes elsewhere. */
  columns: number | undefined;
  /** Whether stderr is a screen, so that a progress bar can redraw its line. */
  drawsProgress: boolean;
  /** Whether stdin is a terminal, so that questions can be answered. */
  canAsk: boolean;
  /** Resolves with the trimmed answer; empty after Ctrl-C or Ctrl-D. */
  ask(question: string): Promise<string>;
  /** The same, undefined after Ctrl-C or Ctrl-D: where an empty answer means something. */
  prompt(question: string): Promise<string | undefined>;
  writeBytes(bytes: Uint8Array): void;
};

type Streams = { stdin: NodeJS.ReadStream; stdout: NodeJS.WriteStream; stderr: NodeJS.WriteStream };

export function createTerminal({ stdin, stdout, stderr }: Streams): Terminal {
  return {
    columns: stdout.isTTY === true ? stdout.columns : undefined,
    drawsProgress: stderr.isTTY === true,
    canAsk: stdin.isTTY === true,
    ask: async (question) => (await prompt(question)) ?? "",
    prompt,
    writeBytes: (bytes) => void stdout.write(bytes),
  };

  async function prompt(question: string): Promise<string | undefined> {
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

/** The operator at this terminal as `user@host`, for the audit. A container's user may have no name. */
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
