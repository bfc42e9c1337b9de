import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

export type Exit = { readonly code: number | null; readonly signal: NodeJS.Signals | null };

export type Child = {
  readonly pid: number;
  /** Resolves once the process has ended and all it wrote was read. */
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
  /** What it gets when this process exits before it; SIGTERM if it has children of its own. */
  lastSignal?: NodeJS.Signals | undefined;
  onLine?: ((line: string, from: "stdout" | "stderr") => void) | undefined;
};

const TAIL_LINES = 40;

/** Starts a program whose output is read by line and which does not outlive this process. */
export function spawnChild(options: ChildOptions): Child {
  const { command, args, env, cwd, detached = false, lastSignal, onLine } = options;
  const child = spawn(command, args, { env, cwd, detached, stdio: ["ignore", "pipe", "pipe"] });
  const tail: string[] = [];
  const take = (from: "stdout" | "stderr") => (line: string) => {
    tail.push(line);
    if (tail.length > TAIL_LINES) tail.shift();
    onLine?.(line, from);
  };
  endWithParent(child, lastSignal);
  eachLine(child.stdout, take("stdout"));
  eachLine(child.stderr, take("stderr"));
  const exit = ended(child, (error) => tail.push(error.message));
  return {
    pid: child.pid ?? -1,
    exit,
    kill(signal = "SIGTERM") {
      child.kill(signal);
      return exit;
    },
    tail: () => tail.join("\n"),
  };
}

function eachLine(stream: Readable, take: (line: string) => void): void {
  createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY }).on("line", take);
}

/** A program that could not be started at all ends with neither code nor signal. */
function ended(child: ChildProcess, onError: (error: Error) => void): Promise<Exit> {
  return new Promise((resolve) => {
    child.on("error", (error) => {
      onError(error);
      if (child.pid === undefined) resolve({ code: null, signal: null });
    });
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
}

const running = new Map<ChildProcess, NodeJS.Signals>();
let watching = false;

/**
 * The child gets this signal when this process exits, so that no failed test and no crashed demo leaves processes behind.
 * SIGTERM is for one that has children of its own to end.
 */
export function endWithParent(child: ChildProcess, signal: NodeJS.Signals = "SIGKILL"): void {
  running.set(child, signal);
  child.once("close", () => running.delete(child));
  if (watching) return;
  watching = true;
  process.on("exit", () => {
    for (const [each, last] of running) each.kill(last);
  });
}
