import type { Env } from "../config/secrets.ts";
import { type AppError, toAppError } from "../errors/app-error.ts";
import type { Logger } from "../log/logger.ts";
import { createProcessLogger } from "../log/pino-logger.ts";
import { armFailpoint } from "./failpoint.ts";
import { Shutdown } from "./shutdown.ts";
import { stopSignal } from "./stop-signal.ts";

/** What every process is started with. */
export type ServiceOptions = { env: Env; pretty: boolean };

export type Service = { log: Logger; shutdown: Shutdown };

/** Exit codes of the program. */
export const EXIT = { ok: 0, failed: 1, usage: 2, config: 3 } as const;

/**
 * The life of one process: `start` composes it, then it runs until SIGTERM or SIGINT, or until `fatal` rejects, and
 * closes in reverse order what was started. Resolves with the exit code. POSTERN_FAILPOINT arms a failpoint, for tests.
 */
export async function runService(
  name: string,
  { env, pretty }: ServiceOptions,
  start: (service: Service) => Promise<{ fatal?: Promise<never> }>,
): Promise<number> {
  const log = createProcessLogger(name, { pretty, level: env["POSTERN_LOG_LEVEL"] ?? "info" });
  const shutdown = new Shutdown();
  armFailpoint(env["POSTERN_FAILPOINT"]);
  let exitCode: number = EXIT.ok;
  try {
    const stopped = stopSignal();
    const { fatal } = await start({ log, shutdown });
    const signal = await Promise.race(fatal === undefined ? [stopped] : [stopped, fatal]);
    log.info("service.stopping", { signal });
  } catch (error) {
    exitCode = refuse(log, toAppError(error));
  }
  const clean = await shutdown.run(log);
  log.info("service.stopped", { exitCode });
  log.flush();
  return clean ? exitCode : EXIT.failed;
}

function refuse(log: Logger, error: AppError): number {
  log.error("service.failed", { code: error.code, reason: error.message, stack: stackOf(error) });
  return error.code === "start.config_invalid" ? EXIT.config : EXIT.failed;
}

/** Only what nobody foresaw needs a stack. */
function stackOf(error: AppError): string | undefined {
  if (error.code !== "internal.unexpected") return undefined;
  return error.cause instanceof Error ? error.cause.stack : error.stack;
}
