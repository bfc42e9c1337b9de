import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { messageOf } from "../platform/errors/app-error.ts";
import { eventually } from "./wait.ts";

export type Exit = { readonly code: number | null; readonly signal: NodeJS.Signals | null };

export type Child = {
  readonly pid: number;
  /** Resolves once the process has ended and all its output has been read. */
  readonly exit: Promise<Exit>;
  /** Sends the signal and waits until the process has ended. */
  kill(signal?: NodeJS.Signals): Promise<Exit>;
  /** Newest lines that the program wrote to stdout and stderr, for error messages. */
  tail(): string;
};

export type ChildOptions = {
  command: string;
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  cwd?: string | undefined;
  /** Keeps the terminal's Ctrl-C from the program, for a parent that wants to end its children one after another. */
  detached?: boolean | undefined;
  /**
   * Signal that the program gets if this process dies first, for any reason. Default: SIGKILL. Use SIGTERM if the
   * program must end children of its own.
   */
  lastSignal?: NodeJS.Signals | undefined;
  onLine?: ((line: string, from: "stdout" | "stderr") => void) | undefined;
  /**
   * File to which the program writes its output directly, so that this process need not read it. `onLine` is then not
   * called.
   */
  logFile?: string | undefined;
};

const TAIL_LINES = 40;

/**
 * Starts a program and reads its output line by line. The program ends with this process, even if this process is
 * killed.
 */
export function spawnChild(options: ChildOptions): Child {
  const { command, args, env, cwd, detached = false, lastSignal = "SIGKILL", onLine, logFile } = options;
  const output = logFile === undefined ? "pipe" : openSync(logFile, "w");
  const guarded = ["-c", GUARDED, lastSignal.replace(/^SIG/, ""), command, ...args];
  const child = spawn("/bin/sh", guarded, { env, cwd, detached, stdio: ["ignore", output, output, "pipe"] });
  if (typeof output === "number") closeSync(output);
  dismissGuard(child);
  const lines: string[] = [];
  const take = (from: "stdout" | "stderr") => (line: string) => {
    lines.push(line);
    if (lines.length > TAIL_LINES) lines.shift();
    onLine?.(line, from);
  };
  eachLine(child.stdout, take("stdout"));
  eachLine(child.stderr, take("stderr"));
  const exit = exitOf(child, (error) => lines.push(error.message));
  return {
    pid: child.pid ?? -1,
    exit,
    kill(signal = "SIGTERM") {
      child.kill(signal);
      return exit;
    },
    tail() {
      const logged = logFile === undefined ? [] : readFileSync(logFile, "utf8").trimEnd().split("\n");
      return [...logged.slice(-TAIL_LINES), ...lines].join("\n");
    },
  };
}

/**
 * Resolves once the child answers. If the child ends first or takes too long, kills it and rejects with its newest
 * lines.
 */
export async function waitUntilAnswers(
  name: string,
  child: Child,
  ask: () => Promise<boolean>,
): Promise<void> {
  const ended = child.exit.then((): never => {
    throw new Error("it exited immediately");
  });
  try {
    await eventually("it answers", ask, undefined, ended);
  } catch (cause) {
    await child.kill("SIGKILL");
    throw new Error(`${name} did not start: ${messageOf(cause)}\n${child.tail()}`, { cause });
  }
}

/**
 * Shell script that runs the program with a guard, which ends the program if this process dies. The script starts the
 * guard in the background and then becomes the program by `exec`, so the program has the pid that was spawned. The
 * guard waits for a line from a pipe that this process holds open. If this process dies, even by SIGKILL, its end of
 * the pipe closes, and the guard sends `lastSignal` to the program. In POSIX sh, $0 is the signal here, and $$ is the
 * program's pid.
 */
const GUARDED = `
  { trap '' HUP INT TERM; read -r line <&3 || kill -s "$0" $$; } </dev/null >/dev/null 2>&1 &
  exec "$@" 3<&-`;

/**
 * Ends the guard (see GUARDED) once its program has ended, by a line on the pipe. Otherwise the guard could later send
 * its signal to another process with the same pid.
 */
function dismissGuard(child: ChildProcess): void {
  const pipe = child.stdio[3] as Writable | null | undefined;
  pipe?.on("error", () => {}); // the guard has already ended
  child.once("exit", () => pipe?.end("\n"));
}

function eachLine(stream: Readable | null, take: (line: string) => void): void {
  if (stream === null) return;
  createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY }).on("line", take);
}

/**
 * Resolves when the program has ended and its output has been read. The code is 127 if the program does not exist. Code
 * and signal are null if the shell cannot be started.
 */
function exitOf(child: ChildProcess, onError: (error: Error) => void): Promise<Exit> {
  return new Promise((resolve) => {
    child.on("error", (error) => {
      onError(error);
      if (child.pid === undefined) resolve({ code: null, signal: null });
    });
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
}
