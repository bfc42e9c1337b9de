import { fileURLToPath } from "node:url";
import type { Fields } from "../log/logger.ts";
import { delay } from "../time/clock.ts";
import { type Child, type Exit, spawnChild } from "./child.ts";

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

/** A long-running process that can die and come back under the same arguments. */
export type Part = {
  /** The one that runs now, or ran last. */
  readonly process: PosternProcess;
  /** `host:port` of its public listener, if it has one. */
  readonly address: string;
  /** Where its probes are, if not on the public listener. */
  readonly opsAddress: string | undefined;
  kill(signal?: NodeJS.Signals): Promise<Exit>;
  /** Kills it if it still runs, starts it again and waits until it listens. `env` is added for this run only. */
  restart(env?: NodeJS.ProcessEnv): Promise<void>;
};

export async function startPart(options: ProcessOptions): Promise<Part> {
  let { process, started } = await start(options);
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
      ({ process, started } = await start({ ...options, env: { ...options.env, ...env } }));
    },
  };
}

async function start(options: ProcessOptions) {
  const process = startProcess(options);
  try {
    return { process, started: await process.waitForEvent("service.started") };
  } catch (error) {
    await process.kill("SIGKILL");
    throw error;
  }
}

export type LoggedEvent = Fields & { readonly event: string };
export type Matches = (event: LoggedEvent) => boolean;

type Waiter = { matches: Matches; resolve(event: LoggedEvent): void };

const KEPT = 10_000;

/** The events of one process, of which the newest some ten thousand are kept, and who waits for one of them. */
export class EventLog {
  readonly #events: LoggedEvent[] = [];
  readonly #waiters = new Set<Waiter>();

  /** Takes a line of the process; one that is no event is ignored. */
  take(line: string): void {
    const event = parseEvent(line);
    if (event === undefined) return;
    this.#events.push(event);
    if (this.#events.length >= 2 * KEPT) this.#events.splice(0, KEPT);
    for (const waiter of this.#waiters) if (waiter.matches(event)) waiter.resolve(event);
  }

  named(name: string | undefined): LoggedEvent[] {
    return this.#events.filter(({ event }) => name === undefined || event === name);
  }

  /** The first match, seen already or yet to come; rejects when `givenUp` does first. */
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

function parseEvent(line: string): LoggedEvent | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    const fields = JSON.parse(line) as Fields;
    return typeof fields["event"] === "string" ? (fields as LoggedEvent) : undefined;
  } catch {
    return undefined;
  }
}
