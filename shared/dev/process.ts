import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { AppError } from "../platform/errors/app-error.ts";
import { isErrorCode } from "../platform/errors/codes.ts";
import type { Fields } from "../platform/log/logger.ts";
import { delay } from "../platform/time/clock.ts";
import { type Child, type ChildOptions, type Exit, spawnChild } from "./child.ts";
import { eventually } from "./wait.ts";

/**
 * A service of the program that runs as a process of its own. It can be killed and restarted with the same arguments.
 */
export type Part = {
  /** The current process, or the last one if none runs. */
  readonly process: PosternProcess;
  /** `host:port` of the process's public listener, if it has one. */
  readonly address: string;
  /** `host:port` of the process's probes, if they are not on the public listener. */
  readonly opsAddress: string | undefined;
  kill(signal?: NodeJS.Signals): Promise<Exit>;
  /** Kills the process if it runs, starts it again and waits until it listens. `env` is added for this run only. */
  restart(env?: NodeJS.ProcessEnv): Promise<void>;
};

export type PosternProcess = Child & {
  readonly name: string;
  /** Events that the process has logged so far, oldest first: all of them, or those with this name. */
  events(name?: string): LoggedEvent[];
  /**
   * Resolves with the first event of that name, whether the process has already logged it or logs it later. If the
   * process ends first or the deadline passes, rejects with an error that contains the newest lines.
   */
  waitForEvent(name: string, options?: WaitOptions): Promise<LoggedEvent>;
};

type WaitOptions = { where?: Matches; deadlineMs?: number };

export type ProcessOptions = Omit<ChildOptions, "command" | "onLine"> & {
  /** Name of the process in error messages. */
  name: string;
  /** Path of the Node binary that runs the process. Default: the Node of this process. */
  node?: string | undefined;
  /** Node's own arguments and the script. Default: the built program `postern`. */
  entry?: readonly string[] | undefined;
  /** Receives every line that the process writes, as it is written. */
  onLine?: ((line: string) => void) | undefined;
};

const DEADLINE_MS = 60_000;

/** Starts a service and resolves once it listens. */
export async function startPart(options: ProcessOptions): Promise<Part> {
  let { process, started } = await startListening(options);
  return {
    get process() {
      return process;
    },
    get address() {
      return String(started["address"]);
    },
    get opsAddress() {
      const address = started["opsAddress"];
      return address === undefined ? undefined : String(address);
    },
    kill: (signal = "SIGTERM") => process.kill(signal),
    async restart(env = {}) {
      await process.kill("SIGKILL");
      ({ process, started } = await startListening({ ...options, env: { ...options.env, ...env } }));
    },
  };
}

async function startListening(options: ProcessOptions) {
  const process = startProcess(options);
  try {
    return { process, started: await process.waitForEvent("service.started") };
  } catch (error) {
    await process.kill("SIGKILL");
    const failed = process.events("service.failed").at(-1);
    const code = String(failed?.["code"]);
    if (!isErrorCode(code)) throw error;
    const reason = `${options.name} ended while starting: ${String(failed?.["reason"])}`;
    throw new AppError(code, { reason, cause: error });
  }
}

/** Starts a process of this program, or a script of a test, and reads the JSON lines that it logs. */
export function startProcess(options: ProcessOptions): PosternProcess {
  const { name, args, node = process.execPath, onLine, logFile, ...rest } = options;
  const { entry = builtEntry("services/cli/main.js"), ...run } = rest;
  const log = new EventLog();
  const child = spawnChild({
    ...run,
    logFile,
    command: node,
    args: [...entry, ...args],
    onLine(line) {
      onLine?.(line);
      log.take(line);
    },
  });
  const source: EventSource = logFile === undefined ? log : eventsIn(logFile);
  return {
    ...child,
    name,
    events: (wanted) => source.named(wanted),
    async waitForEvent(wanted, { where = () => true, deadlineMs = DEADLINE_MS } = {}) {
      const limit = new AbortController();
      try {
        const givenUp = neverLogged(child, `${name}: ${wanted}`, deadlineMs, limit.signal);
        return await source.first((event) => event.event === wanted && where(event), givenUp);
      } finally {
        limit.abort();
      }
    },
  };
}

/** Rejects when the process ends or the deadline passes. */
function neverLogged(child: Child, what: string, deadlineMs: number, signal: AbortSignal): Promise<never> {
  const fail = (why: string): never => {
    throw new Error(`${what} was not logged ${why}\n${child.tail()}`);
  };
  const never = Promise.race([
    delay(deadlineMs, signal).then(() => fail(`within ${deadlineMs} ms`)),
    child.exit.then(({ code, signal: by }) => fail(`before the process ended (${by ?? `code ${code}`})`)),
  ]);
  never.catch(() => {});
  return never;
}

/**
 * Returns the arguments with which Node runs a built program. The program is found in dist/ of the package `postern`,
 * whether this module runs from sources or is itself built.
 */
export function builtEntry(file: string): string[] {
  const root = dirname(createRequire(import.meta.url).resolve("postern/package.json"));
  return ["--enable-source-maps", join(root, "dist", file)];
}

export type LoggedEvent = Fields & { readonly event: string };
type Matches = (event: LoggedEvent) => boolean;

type EventSource = {
  /** Returns the events with this name, or all events, oldest first. */
  named(name?: string): LoggedEvent[];
  /**
   * Resolves with the first matching event, whether it is already logged or logged later. Rejects if `givenUp` rejects
   * first.
   */
  first(matches: Matches, givenUp: Promise<never>): Promise<LoggedEvent>;
};

type Waiter = { matches: Matches; resolve(event: LoggedEvent): void };

const EVENTS_KEPT = 10_000;

/** The events of one process, collected line by line. Keeps at least the newest 10,000. */
export class EventLog implements EventSource {
  readonly #events: LoggedEvent[] = [];
  readonly #waiters = new Set<Waiter>();

  /** Adds a line of the process; ignores a line that is not an event. */
  take(line: string): void {
    const event = parseEvent(line);
    if (event === undefined) return;
    this.#events.push(event);
    if (this.#events.length >= 2 * EVENTS_KEPT) this.#events.splice(0, EVENTS_KEPT);
    for (const waiter of this.#waiters) if (waiter.matches(event)) waiter.resolve(event);
  }

  named(name?: string): LoggedEvent[] {
    return this.#events.filter(({ event }) => name === undefined || event === name);
  }

  async first(matches: Matches, givenUp: Promise<never>): Promise<LoggedEvent> {
    const seen = this.#events.find(matches);
    if (seen !== undefined) return seen;
    const waiter: Waiter = { matches, resolve() {} };
    const coming = new Promise<LoggedEvent>((resolve) => {
      waiter.resolve = resolve;
    });
    this.#waiters.add(waiter);
    try {
      return await Promise.race([coming, givenUp]);
    } finally {
      this.#waiters.delete(waiter);
    }
  }
}

/** Reads events from a log file. Each call reads the file again. */
function eventsIn(logFile: string): EventSource {
  const read = () => {
    const lines = readFileSync(logFile, "utf8").split("\n").slice(0, -1);
    return lines.flatMap((line) => parseEvent(line) ?? []);
  };
  return {
    named: (name) => read().filter(({ event }) => name === undefined || event === name),
    first: (matches, givenUp) =>
      eventually("the event is logged", () => read().find(matches), Number.POSITIVE_INFINITY, givenUp),
  };
}

function parseEvent(line: string): LoggedEvent | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    const fields = JSON.parse(line) as Fields;
    return typeof fields["event"] === "string" ? (fields as LoggedEvent) : undefined;
  } catch {
    return undefined;
  }
}
