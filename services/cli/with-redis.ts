import { loadPostern } from "../../shared/config/load-config.ts";
import type { PosternToml } from "../../shared/config/postern-toml.ts";
import type { Secret } from "../../shared/crypto/secret.ts";
import { AppError, messageOf, toAppError } from "../../shared/errors/app-error.ts";
import { logLevelOf } from "../../shared/lifecycle/environment.ts";
import { EXIT } from "../../shared/lifecycle/run-service.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { createProcessLogger, type ProcessLogger } from "../../shared/log/pino-logger.ts";
import { connectForRequests, type Redis } from "../../shared/redis/connect.ts";
import { checkLayout } from "../../shared/redis/layout.ts";
import { type Partition, partitionOf } from "../../shared/redis/partition.ts";
import { whenReady } from "../../shared/redis/ready.ts";
import type { ProgramDeps } from "./program-deps.ts";

type Session = {
  redis: Redis;
  partition: Partition;
  /** Without the secrets of runners. */
  postern: PosternToml;
  /** JSON lines on stderr, or nothing if stderr is a screen. Flush it before you write to stderr yourself. */
  log: ProcessLogger;
};

/** Short, because a person waits. */
const READY_DEADLINE_MS = 5000;

/** For one reply, which may be a body of 25 MiB that comes from afar. While Redis is away a command still fails at once. */
const REPLY_DEADLINE_MS = 60_000;

/**
 * Runs `work` against the configured Redis and resolves with its exit code. Any failure becomes one message on stderr and
 * exit code 3 for a wrong configuration, 1 for the rest: `work` may throw what the operator is to read.
 */
export async function withRedis(
  { env, printError, terminal }: ProgramDeps,
  { configDir }: { configDir: string },
  work: (session: Session) => Promise<number>,
): Promise<number> {
  try {
    const { postern } = loadPostern({ dir: configDir, env, reader: "command" });
    const level = logLevelOf(env);
    const log = terminal.drawsProgress
      ? { ...silentLogger, async flush() {} }
      : createProcessLogger("cli", { pretty: false, level, to: "stderr" });
    const redis = connectForRequests(postern.redis.url, silentLogger);
    redis.options.commandTimeout = REPLY_DEADLINE_MS;
    try {
      await connected(redis, postern.redis.url);
      const partition = partitionOf(redis);
      await checkLayout(partition);
      return await work({ redis, partition, postern, log });
    } finally {
      redis.disconnect();
      await log.flush();
    }
  } catch (thrown) {
    const error = toAppError(thrown);
    printError(`${error.message}\n`);
    return error.code === "start.config_invalid" ? EXIT.config : EXIT.failed;
  }
}

async function connected(redis: Redis, url: Secret): Promise<void> {
  await whenReady(redis, READY_DEADLINE_MS).catch((cause: unknown) => {
    const reason = `Redis at ${hostOf(url)} cannot be reached: ${messageOf(cause)}`;
    throw new AppError("queue.unavailable", { reason, cause });
  });
}

/** The part of the URL that is no secret. */
function hostOf(url: Secret): string {
  return URL.canParse(url.reveal()) ? new URL(url.reveal()).host : "its configured address";
}
