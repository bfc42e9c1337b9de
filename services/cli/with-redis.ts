import { type Config, loadConfig } from "../../shared/config/load-config.ts";
import type { PosternToml } from "../../shared/config/postern-toml.ts";
import type { Secret } from "../../shared/crypto/secret.ts";
import { AppError, messageOf, toAppError } from "../../shared/errors/app-error.ts";
import { EXIT } from "../../shared/lifecycle/run-service.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { createProcessLogger, type ProcessLogger } from "../../shared/log/pino-logger.ts";
import { connectForRequests, type Redis, whenReady } from "../../shared/redis/connect.ts";
import type { ProgramDeps } from "./program-deps.ts";

export type Session = {
  redis: Redis;
  postern: PosternToml;
  /** JSON lines on stderr, unless that is a screen; to be flushed before anything else is written there. */
  log: ProcessLogger;
};

/** A person waits for the answer. */
const READY_DEADLINE_MS = 2000;

/**
 * Runs one command against the configured Redis and resolves with its exit code. Whatever goes wrong is one message on
 * stderr: the configuration (3), or Redis and the rest (1).
 */
export async function withRedis(
  deps: ProgramDeps,
  { configDir }: { configDir: string },
  work: (session: Session) => Promise<number>,
): Promise<number> {
  try {
    return await inSession(deps, loadConfig({ dir: configDir, env: deps.env }), work);
  } catch (thrown) {
    const error = toAppError(thrown);
    deps.printError(`${error.message}\n`);
    return error.code === "start.config_invalid" ? EXIT.config : EXIT.failed;
  }
}

async function inSession(
  { env, printError, terminal }: ProgramDeps,
  { postern }: Config,
  work: (session: Session) => Promise<number>,
): Promise<number> {
  const redis = connectForRequests(postern.redis.url, silentLogger);
  const level = env["POSTERN_LOG_LEVEL"] ?? "info";
  const log = createProcessLogger("cli", { pretty: false, level, to: "stderr" });
  try {
    await reach(redis, postern.redis.url);
    return await work({
      redis,
      postern,
      log: terminal.drawsProgress ? { ...silentLogger, flush() {} } : log,
    });
  } catch (thrown) {
    printError(`${messageOf(thrown)}\n`);
    return EXIT.failed;
  } finally {
    redis.disconnect();
    log.flush();
  }
}

async function reach(redis: Redis, url: Secret): Promise<void> {
  await whenReady(redis, READY_DEADLINE_MS).catch((cause: unknown) => {
    const reason = `Redis at ${hostOf(url)} cannot be reached: ${messageOf(cause)}`;
    throw new AppError("queue.unavailable", { reason, cause });
  });
}

/** The part of the URL that is no secret. */
function hostOf(url: Secret): string {
  return URL.canParse(url.reveal()) ? new URL(url.reveal()).host : "its configured address";
}
