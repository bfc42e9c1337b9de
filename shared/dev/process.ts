import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { Fields } from "../platform/log/logger.ts";
import { delay } from "../platform/time/clock.ts";
import { type Child, type ChildOptions, type Exit, spawnChild } from "./child.ts";
import { eventually } from "./wait.ts";

/** A long-running process that can die and come back under the same arguments. */
export type Part = {
  /** The process that runs now, or ran last. */
  readonly process: PosternProcess;
  /** `host:port` of its public listener, if it has one. */
  readonly address: string;
  /** `host:port` of its probes, if they are not on the public listener. */
  readonly opsAddress: string | undefined;
  kill(signal?: NodeJS.Signals): Promise<Exit>;
  /** Kills it if it still runs, starts it again and waits until it listens. `env` is added for this run only. */
  restart(env?: NodeJS.ProcessEnv): Promise<void>;
};

export type PosternProcess = Child & {
  readonly name: string;
  /** What it logged so far, oldest first: all of it, or one kind. */
  events(name?: string): LoggedEvent[];
  /**
   * The first event of that name, already logged or yet to come. Rejects, with the newest lines, if the process ends
   * first or the deadline passes.
   */
  waitForEvent(name: string, options?: WaitOptions): Promise<LoggedEvent>;
};

type WaitOptions = { where?: Matches; deadlineMs?: number };

export type ProcessOptions = Omit<ChildOptions, "command" | "onLine"> & {
  /** For messages. */
  name: string;
  /** The Node that runs it; without it the one that runs this process. */
  node?: string | undefined;
  /** Node's own arguments and the script; without it, the built program `postern`. */
  entry?: readonly string[] | undefined;
  /** Every line of the process, as it comes. */
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
    const reason = process.events("service.failed").at(-1)?.["reason"];
    if (reason === undefined) throw error;
    throw new Error(`${options.name} ended while starting: ${String(reason)}`, { cause: error });
  }
}

/** Starts a process of this program, or a test's own, and reads the JSON lines that it logs. */
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

/** Rejects when the process ends or the time is over. */
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

/** A program as built; found by the package's own name, so from the sources and from dist/ alike. */
export function builtEntry(file: string): string[] {
  const root = dirname(createRequire(import.meta.url).resolve("postern/package.json"));
  return ["--enable-source-maps", join(root, "dist", file)];
}

export type LoggedEvent = Fields & { readonly event: string };
type Matches = (event: LoggedEvent) => boolean;

type EventSource = {
  /** Oldest first; without a name, all of them. */
  named(name?: string): LoggedEvent[];
  /** The first match, seen already or yet to come; rejects if `givenUp` rejects first. */
  first(matches: Matches, givenUp: Promise<never>): Promise<LoggedEvent>;
};

type Waiter = { matches: Matches; resolve(event: LoggedEvent): void };

const KEPT = 10_000;

/** The events of one process, line by line as they come. The newest 10,000, at least, are kept. */
export class EventLog implements EventSource {
  readonly #events: LoggedEvent[] = [];
  readonly #waiters = new Set<Waiter>();

  /** Takes a line of the process; a line that is no event is ignored. */
  take(line: string): void {
    const event = parseEvent(line);
    if (event === undefined) return;
    this.#events.push(event);
    if (this.#events.length >= 2 * KEPT) this.#events.splice(0, KEPT);
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

/** The events in a log file, which is read again each time. */
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
