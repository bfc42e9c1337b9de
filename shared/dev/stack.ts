import { join } from "node:path";
import { messageOf } from "../platform/errors/app-error.ts";
import { builtEntry, type Part, startPart } from "./process.ts";
import { eventually } from "./wait.ts";

export type ServiceName = "runner" | "producer" | "webhooks" | "x402" | "pricing" | "operator";

type StackOptions = {
  /** Folder of the configuration that all services of the stack read. */
  configDir: string;
  env: NodeJS.ProcessEnv;
  /** Keeps the terminal's Ctrl-C from the services. The parent process ends them itself. */
  detached?: boolean;
  /** Node's own arguments and the script of the program. Default: the built program. */
  entry?: readonly string[];
  /** Receives every line that a service logs. */
  onLine?: (part: string, line: string) => void;
  /**
   * Folder in which each service writes its log to a file of its name, so that this process need not read it. `onLine`
   * is then not called.
   */
  logDir?: string;
};

type StartOptions = {
  /** Name in error messages. Default: the service's name. */
  name?: string;
  /** `host:port` of the service's probes. Default: a free port. */
  opsAddress?: string;
  /** Further arguments; they override those of the stack. */
  args?: readonly string[];
  /** Replaces the `entry` of the stack for this service. */
  entry?: readonly string[] | undefined;
};

/** Services of the program that share one configuration. Each service is a process of its own. */
export type Stack = {
  /** Every service that was started, in order. */
  readonly parts: readonly Part[];
  /** Starts a service and resolves once it listens; `untilReady` waits until the service is ready. */
  start(service: ServiceName, options?: StartOptions): Promise<Part>;
};

export function createStack(options: StackOptions): Stack {
  const { configDir, env, detached, onLine, logDir } = options;
  const parts: Part[] = [];
  return {
    parts,
    async start(service, started = {}) {
      const { name = service, opsAddress = ANY_PORT, args = [], entry = options.entry } = started;
      const part = await startPart({
        name,
        ...commandOf(service, { configDir, opsAddress, args, entry }),
        env,
        detached,
        onLine: onLine && ((line) => onLine(name, line)),
        logFile: logDir && join(logDir, `${name}.log`),
      });
      parts.push(part);
      return part;
    },
  };
}

const ANY_PORT = "127.0.0.1:0";

type CommandOptions = {
  configDir: string;
  opsAddress: string;
  args: readonly string[];
  entry: readonly string[] | undefined;
};

/**
 * Returns the command of a service. Without an entry, the pricing engine runs from a script that adds its extension for
 * settlement by x402. No subcommand of `postern` adds this extension. The script takes no options.
 */
function commandOf(service: ServiceName, { configDir, opsAddress, args, entry }: CommandOptions) {
  if (service === "pricing" && entry === undefined) {
    return { entry: builtEntry("services/pricing/main-with-x402.js"), args: [configDir, opsAddress] };
  }
  return { entry, args: [service, "--config-dir", configDir, "--ops-address", opsAddress, ...args] };
}

const READY_DEADLINE_MS = 60_000;

/**
 * Resolves with the checks in the first answer 200 of the readiness probe. To wait until the service listens is not
 * enough, because it listens before it has reached Redis. If the service ends first, or is not ready in time, rejects
 * with an error that contains its newest lines.
 */
export async function untilReady(part: Part): Promise<Record<string, unknown>> {
  const { process } = part;
  const ended = process.exit.then((): never => {
    const reason = process.events("service.failed").at(-1)?.["reason"] ?? "no reason was logged";
    throw new Error(`${process.name} ended before it was ready: ${reason}`);
  });
  try {
    const ready = async () => {
      const { ok, checks } = await probe(part);
      return ok ? checks : undefined;
    };
    return await eventually(`${process.name} is ready`, ready, READY_DEADLINE_MS, ended);
  } catch (cause) {
    throw new Error(`${messageOf(cause)}\n${process.tail()}`, { cause });
  }
}

/** Resolves once the payment gateway has reached its facilitators and its chains. It sells nothing before that. */
export async function untilSelling(x402: Part): Promise<void> {
  await eventually("the payment gateway reaches its facilitators and chains", async () => {
    const { ok, checks } = await probe(x402);
    const { facilitators, chains } = checks as Record<"facilitators" | "chains", readonly { ok: boolean }[]>;
    return ok && [...facilitators, ...chains].every((each) => each.ok);
  });
}

/** Returns the URL of the service's readiness probe. */
export function readinessUrl({ opsAddress, address }: Part): string {
  return `http://${opsAddress ?? address}/readyz`;
}

async function probe(part: Part) {
  const answer = await fetch(readinessUrl(part));
  return { ok: answer.ok, checks: (await answer.json()) as Record<string, unknown> };
}
