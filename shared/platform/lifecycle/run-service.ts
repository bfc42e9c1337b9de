import { type AppError, messageOf, stackOf, toAppError } from "../errors/app-error.ts";
import type { ErrorCode } from "../errors/codes.ts";
import type { Logger } from "../log/logger.ts";
import { sampleCalls } from "../log/sample-calls.ts";
import { environmentWarnings, failpointOf, type Logging, loggingOf, requireUtf8 } from "./environment.ts";
import { armFailpoint } from "./failpoint.ts";

/** Options of every process. */
export type ServiceOptions = { env: NodeJS.ProcessEnv; pretty: boolean };

export type Service = {
  log: Logger;
  shutdown: Shutdown;
  /** Sets what a SIGHUP does from now on. Until then a SIGHUP is only logged. */
  onHangup(work: () => void): void;
};

/**
 * Effect of a SIGHUP. A terminal sends this signal to its processes when it closes, and operators send it so that a
 * process reloads its configuration.
 */
type OnHangup = "ignore" | "stop";

/** Exit codes of the program. */
export const EXIT = { ok: 0, failed: 1, usage: 2, config: 3 } as const;

/**
 * Runs one process of Postern. `start` composes and starts its parts. The process runs until it gets SIGTERM or SIGINT,
 * or `fatal` rejects. Then the started parts are closed in reverse order. Resolves with the exit code.
 * POSTERN_FAILPOINT arms a failpoint for tests. If `onHangup` is "stop", a SIGHUP ends the process as well. If it is
 * "ignore", the process decides what a SIGHUP does (`Service.onHangup`).
 */
export function runService(
  name: string,
  options: RunOptions,
  start: Start,
  { onHangup = "ignore" }: { onHangup?: OnHangup } = {},
): Promise<number> {
  return withStopSignal((stopped) => run(name, options, start, { onHangup, stopped }), { onHangup });
}

type RunOptions = ServiceOptions & { configDir?: string | undefined };
type Start = (service: Service) => Promise<{ fatal?: Promise<void> }>;

async function run(
  name: string,
  { env, pretty, configDir }: RunOptions,
  start: Start,
  { onHangup, stopped }: { onHangup: OnHangup; stopped: Promise<NodeJS.Signals> },
): Promise<number> {
  const { createProcessLogger } = await import("../log/pino-logger.ts"); // loaded late, because commands use this file too and log nothing
  const { level, callShare, wrong } = readLogging(env);
  const log = sampleCalls(createProcessLogger(name, { pretty, level }), callShare);
  const shutdown = new Shutdown();
  let exitCode: number = EXIT.ok;
  try {
    if (wrong !== undefined) throw wrong;
    requireUtf8(env);
    armFailpoint(failpointOf(env));
    for (const warning of environmentWarnings(env, configDir)) log.warn("config.warning", { warning });
    let onSighup = (): void => log.info("service.hangup_ignored", { reason: NO_RELOAD });
    if (onHangup === "ignore") process.on("SIGHUP", () => onSighup());
    const { fatal } = await start({
      log,
      shutdown,
      onHangup(work) {
        onSighup = work;
      },
    });
    const failed = new Promise<never>((_, reject) => fatal?.catch(reject));
    const signal = await Promise.race([stopped, failed]);
    log.info("service.stopping", { signal });
  } catch (error) {
    exitCode = refuse(log, toAppError(error));
  }
  const clean = await shutdown.run(log);
  log.info("service.stopped", { exitCode });
  await log.flush();
  return clean ? exitCode : EXIT.failed;
}

const NO_RELOAD = "this process is starting, or reads no configuration";

/**
 * Returns the log settings. If an environment variable is invalid, returns the default settings and the error, so that
 * the error can be logged.
 */
function readLogging(env: NodeJS.ProcessEnv): Logging & { wrong?: unknown } {
  try {
    return loggingOf(env);
  } catch (wrong) {
    return { ...loggingOf({}), wrong };
  }
}

/** Errors that the user must fix before the process can start anything. */
const SETUP: readonly ErrorCode[] = ["start.config_invalid", "start.package_missing"];

function refuse(log: Logger, error: AppError): number {
  log.error("service.failed", { code: error.code, reason: error.message, stack: stackOf(error) });
  return SETUP.includes(error.code) ? EXIT.config : EXIT.failed;
}

/**
 * Runs work that a signal can stop, and listens for signals while the work runs. `stopped`, which the work gets,
 * resolves with the first SIGTERM or SIGINT. A second one ends the process at once with exit code 1. Unless `onHangup`
 * is "ignore", `stopped` resolves at a SIGHUP as well. A further SIGHUP does not end the process at once, because a
 * closing terminal sends several.
 */
export async function withStopSignal<Result>(
  work: (stopped: Promise<NodeJS.Signals>) => Promise<Result>,
  { onHangup = "stop" }: { onHangup?: OnHangup } = {},
): Promise<Result> {
  const signals: NodeJS.Signals[] = ["SIGTERM", "SIGINT"];
  if (onHangup === "stop") signals.push("SIGHUP");
  let stop = (_signal: NodeJS.Signals): void => {};
  const stopped = new Promise<NodeJS.Signals>((resolve) => {
    stop = resolve;
  });
  let seen = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (seen && signal !== "SIGHUP") process.exit(1);
    seen = true;
    stop(signal);
  };
  for (const signal of signals) process.on(signal, onSignal);
  try {
    return await work(stopped);
  } finally {
    for (const signal of signals) process.off(signal, onSignal);
  }
}

/** Closes the started parts in reverse order of registration. */
export class Shutdown {
  readonly #steps: { name: string; close: () => Promise<unknown> | unknown }[] = [];

  defer(name: string, close: () => Promise<unknown> | unknown): void {
    this.#steps.push({ name, close });
  }

  /** Closes every part, even if another one fails to close. Returns true if all were closed. */
  async run(log: Logger): Promise<boolean> {
    let clean = true;
    for (const { name, close } of this.#steps.splice(0).reverse()) {
      try {
        await close();
      } catch (error) {
        clean = false;
        log.error("shutdown.step_failed", { step: name, reason: messageOf(error) });
      }
    }
    return clean;
  }
}
