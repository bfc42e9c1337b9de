import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { messageOf } from "../platform/errors/app-error.ts";
import { eventually } from "./wait.ts";

export type Exit = { readonly code: number | null; readonly signal: NodeJS.Signals | null };

export type Child = {
  readonly pid: number;
  /** Resolves once the process has ended and all its output was read. */
  readonly exit: Promise<Exit>;
  /** Sends the signal and waits for the end. */
  kill(signal?: NodeJS.Signals): Promise<Exit>;
  /** Its newest lines on stdout and stderr, to be shown with a failure. */
  tail(): string;
};

export type ChildOptions = {
  command: string;
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  cwd?: string | undefined;
  /** Out of reach of the terminal's Ctrl-C: for a parent that ends its children itself, in order. */
  detached?: boolean | undefined;
  /** The signal it gets if this process ends before it, in whatever way; SIGTERM if it has children of its own to end. */
  lastSignal?: NodeJS.Signals | undefined;
  onLine?: ((line: string, from: "stdout" | "stderr") => void) | undefined;
  /** Its output goes straight to this file, which costs this process nothing; `onLine` is then not called. */
  logFile?: string | undefined;
};

const TAIL_LINES = 40;

/** Starts a program whose output is read by line and which does not outlive this process, even if that is killed. */
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
  const exit = ended(child, (error) => lines.push(error.message));
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

/** Resolves once the child answers. If it ends first, or takes too long, kills it and rejects with its newest lines. */
export async function untilAnswers(name: string, child: Child, ask: () => Promise<boolean>): Promise<void> {
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
 * Becomes the program, which so has the pid that was spawned. A guard beside it holds the other end of a pipe from this
 * process, and sends the last signal if the pipe closes before a line has come through it: a process that is killed with
 * SIGKILL can tell nobody, but its pipes close. POSIX sh: $0 is the signal, $$ the program's pid.
 */
const GUARDED = `
  { trap '' HUP INT TERM; read -r line <&3 || kill -s "$0" $$; } </dev/null >/dev/null 2>&1 &
  exec "$@" 3<&-`;

/** Once the program has ended there is nothing to signal: its pid may be another's soon. */
function dismissGuard(child: ChildProcess): void {
  const pipe = child.stdio[3] as Writable | null | undefined;
  pipe?.on("error", () => {}); // the guard is gone already
  child.once("exit", () => pipe?.end("\n"));
}

function eachLine(stream: Readable | null, take: (line: string) => void): void {
  if (stream === null) return;
  createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY }).on("line", take);
}

/** A program that is not there ends with code 127, as the shell says it; if there is no shell, with neither code nor signal. */
function ended(child: ChildProcess, onError: (error: Error) => void): Promise<Exit> {
  return new Promise((resolve) => {
    child.on("error", (error) => {
      onError(error);
      if (child.pid === undefined) resolve({ code: null, signal: null });
    });
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
}
