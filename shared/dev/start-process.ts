import { fileURLToPath } from "node:url";
import { delay } from "../time/clock.ts";
import { EventLog, type LoggedEvent, type Matches } from "./event-log.ts";
import { type Child, spawnChild } from "./spawn-child.ts";

export type PosternProcess = Child & {
  readonly name: string;
  /** What it logged so far, oldest first: all of it, or one kind. */
  events(name?: string): LoggedEvent[];
  /**
   * The first event of that name, already logged or yet to come. Rejects, with the newest lines, when the process ends
   * first or the deadline passes.
   */
  waitForEvent(name: string, options?: WaitOptions): Promise<LoggedEvent>;
};

export type WaitOptions = { where?: Matches; deadlineMs?: number };

export type ProcessOptions = {
  /** For messages. */
  name: string;
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  cwd?: string;
  /** Out of reach of the terminal's Ctrl-C. */
  detached?: boolean;
  /** What it gets when this process exits before it; SIGTERM if it has children of its own. */
  lastSignal?: NodeJS.Signals;
  /** Node's own arguments and the script; without it, the built program `postern`. */
  entry?: readonly string[];
  /** Every line of the process, as it comes. */
  onLine?: (line: string) => void;
};

const DEADLINE_MS = 30_000;

/** Starts a process of this program, or a test's own, and reads the JSON lines it logs. */
export function startProcess({
  name,
  args,
  entry = builtEntry("services/cli/main.js"),
  onLine,
  ...rest
}: ProcessOptions): PosternProcess {
  const log = new EventLog();
  const child = spawnChild({
    ...rest,
    command: process.execPath,
    args: [...entry, ...args],
    onLine(line) {
      onLine?.(line);
      log.take(line);
    },
  });
  return {
    ...child,
    name,
    events: (wanted) => log.named(wanted),
    async waitForEvent(wanted, { where = () => true, deadlineMs = DEADLINE_MS } = {}) {
      const limit = new AbortController();
      try {
        const givenUp = neverSeen({ child, what: `${name}: ${wanted}`, deadlineMs, signal: limit.signal });
        return await log.first((event) => event.event === wanted && where(event), givenUp);
      } finally {
        limit.abort();
      }
    },
  };
}

type Awaited = { child: Child; what: string; deadlineMs: number; signal: AbortSignal };

/** Rejects when the process ends or the time is over. */
function neverSeen({ child, what, deadlineMs, signal }: Awaited): Promise<never> {
  const fail = (why: string): never => {
    throw new Error(`${what} ${why}\n${child.tail()}`);
  };
  const never = Promise.race([
    delay(deadlineMs, signal).then(() => fail(`was not logged within ${deadlineMs} ms`)),
    child.exit.then(({ code, signal: by }) =>
      fail(`was not logged before the process ended (${by ?? `code ${code}`})`),
    ),
  ]);
  never.catch(() => {});
  return never;
}

/** A program as built, whether this file runs from `dist` itself or, in tests, from source. */
export function builtEntry(file: string): string[] {
  const dist = import.meta.url.endsWith(".ts") ? "../../dist/" : "../../";
  return ["--enable-source-maps", fileURLToPath(new URL(`${dist}${file}`, import.meta.url))];
}
