import { hostname, userInfo } from "node:os";
import { createInterface } from "node:readline/promises";

/** What a command may know of where its output goes. */
export type Terminal = {
  /** The width of the screen that stdout goes to; undefined when it goes elsewhere. */
  columns: number | undefined;
  /** Whether stderr goes to a screen, so that a line may be drawn over and over. */
  drawsProgress: boolean;
  /** Whether somebody is there to answer a question. */
  canAsk: boolean;
  /** The answer, trimmed; empty when the person leaves. */
  ask(question: string): Promise<string>;
  writeBytes(bytes: Uint8Array): void;
};

type Streams = { stdin: NodeJS.ReadStream; stdout: NodeJS.WriteStream; stderr: NodeJS.WriteStream };

export function createTerminal({ stdin, stdout, stderr }: Streams): Terminal {
  return {
    columns: stdout.isTTY === true ? stdout.columns : undefined,
    drawsProgress: stderr.isTTY === true,
    canAsk: stdin.isTTY === true,
    async ask(question) {
      const lines = createInterface({ input: stdin, output: stderr });
      const leave = new AbortController();
      lines.on("SIGINT", () => leave.abort());
      lines.on("close", () => leave.abort());
      try {
        return (await lines.question(question, { signal: leave.signal })).trim();
      } catch (error) {
        if (!leave.signal.aborted) throw error;
        return "";
      } finally {
        lines.close();
      }
    },
    writeBytes: (bytes) => void stdout.write(bytes),
  };
}

/** Who sits at this terminal, for the audit: `user@host`. A container's user may have no name. */
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
