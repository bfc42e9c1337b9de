import { hasConfigFiles, loadConfig } from "../../shared/config/config-dir.ts";
import { endpointPaths } from "../../shared/config/endpoint-names.ts";
import type { PosternToml } from "../../shared/config/postern-toml.ts";
import { readPostern } from "../../shared/config/read-postern.ts";
import { toDeploymentOptions } from "../../shared/config/redis-toml.ts";
import { createTokenSource, type TokenSource } from "../../shared/console/tokens.ts";
import { type Place, placesOf } from "../../shared/part/places.ts";
import { AppError, messageOf, toAppError } from "../../shared/platform/errors/app-error.ts";
import type { ErrorCode } from "../../shared/platform/errors/codes.ts";
import { EXIT } from "../../shared/platform/lifecycle/run-service.ts";
import { type Logger, silentLogger } from "../../shared/platform/log/logger.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { redisClock } from "../../shared/redis/clock.ts";
import { connectForRequests, type Redis, type RedisTarget } from "../../shared/redis/connect.ts";
import { addressText } from "../../shared/redis/connector.ts";
import { Deployment } from "../../shared/redis/deployment.ts";
import { unlessRedis } from "../../shared/redis/failure.ts";
import { checkLayout } from "../../shared/redis/layout.ts";
import { unavailable } from "../../shared/redis/merge.ts";
import { type Partition, Partitioned, type Partitions, partitionOf } from "../../shared/redis/partition.ts";
import { whenReady } from "../../shared/redis/ready.ts";
import type { ProgramDeps } from "./program-deps.ts";
import { operatorName } from "./terminal.ts";

export type Session = {
  partitions: Partitions;
  /** Partition 0. */
  partition: Partition;
  /**
   * Partitions whose connections may wait long for a reply, such as a large body. The console has separate connections
   * for this. In a command they are the same as `partitions`.
   */
  patient: Partitions;
  /** The configuration, without the secrets of runners. */
  postern: PosternToml;
  /** Writes nothing: a command prints its own messages, and the audit log is in Redis. */
  log: Logger;
  /** Redis' clock. */
  clock: Clock;
  runnerMemoryMs: number;
  tokens: TokenSource;
  paths: () => readonly string[];
  countsEarned: boolean;
  /** The operator who runs the command. */
  by: string;
};

const EXIT_CODES: Partial<Record<ErrorCode, number>> = {
  "start.config_invalid": EXIT.config,
  "token.unconfigured": EXIT.config,
  "request.malformed": EXIT.usage,
};

/** Deadline for the connection to partition 0. It is short, because a person waits for the command. */
const READY_DEADLINE_MS = 5000;
/** Deadline for the connection to each other partition. It is shorter, because the command may not need that partition. */
const FURTHER_DEADLINE_MS = 2000;

/**
 * Deadline of one reply. It is long, because the reply may be a body of 25 MiB over a slow network. If the connection
 * is lost, a command does not wait for this deadline, but fails at once.
 */
const REPLY_DEADLINE_MS = 60_000;

/**
 * Connects to the Redis in the configuration, runs `work` with the connections, and resolves with its exit code. Any
 * failure, including an error that `work` throws, is printed as one message on stderr. The exit code is then 3 for an
 * invalid configuration, 2 for a usage error, and 1 for any other failure.
 */
export function withRedis(
  deps: ProgramDeps,
  { configDir, ofAnyDeployment = false }: { configDir: string; ofAnyDeployment?: boolean },
  work: (session: Session) => Promise<number>,
): Promise<number> {
  return exitCodeOf(deps, async () => {
    const { env } = deps;
    const { postern } = loadConfig(readPostern, { dir: configDir, env, reader: "command" });
    const places = placesOf(postern.redis);
    const opened = new Partitioned(places.map((place, index) => open(place, index, places.length)));
    try {
      const partitions = await checkPartitions(opened, { configDir, ofAnyDeployment, postern });
      const partition = partitions.control;
      const { read, now: clock } = redisClock(partition.redis);
      await read();
      return await work({
        partitions,
        partition,
        patient: partitions,
        postern,
        runnerMemoryMs: postern.runner.memory_secs * 1000,
        tokens: createTokenSource({ configDir, env, clock }),
        paths: () => endpointPaths(configDir),
        countsEarned: postern.console.report,
        log: silentLogger,
        clock,
        by: operatorName(),
      });
    } finally {
      for (const { partition } of opened.all) partition.redis.disconnect();
    }
  });
}

type Opened = { place: Place; partition: Partition };

function open(place: Place, index: number, count: number): Opened {
  const redis = connectForRequests(place.target, silentLogger);
  redis.options.commandTimeout = REPLY_DEADLINE_MS;
  return { place, partition: partitionOf(redis, place.prefix, { index, count }) };
}

type Checks = { configDir: string; ofAnyDeployment: boolean; postern: PosternToml };

/**
 * Checks whether the partitions can be used. Throws if partition 0 cannot, because every command needs it. If another
 * partition cannot, its error is thrown only when the command uses that partition.
 */
async function checkPartitions(opened: Partitioned<Opened>, checks: Checks): Promise<Partitions> {
  const partitions = opened.map(({ partition }) => partition);
  const { control } = partitions;
  const check = createCheckOf(control, checks);
  await check(opened.control, READY_DEADLINE_MS);
  const further = opened.all.slice(1).map(async (each) => {
    try {
      await check(each, FURTHER_DEADLINE_MS);
      return undefined;
    } catch (error) {
      return unavailable(each.partition, toAppError(unlessRedis(error)));
    }
  });
  const problems = [undefined, ...(await Promise.all(further))];
  return partitions.guardedBy((index) => {
    if (problems[index] !== undefined) throw problems[index];
  });
}

/**
 * Creates the function that checks a partition. It must be reachable, have the data of this deployment, and have a data
 * layout that this release can read.
 */
function createCheckOf(control: Partition, { configDir, ofAnyDeployment, postern }: Checks) {
  return async ({ partition, place: { target } }: Opened, deadlineMs: number): Promise<void> => {
    await connectAndCheck(partition.redis, { target, configDir, deadlineMs });
    if (!ofAnyDeployment) {
      const options = toDeploymentOptions(postern.redis, partition.index);
      // Services write a state file with what they have seen in Redis. A command has none.
      const deployment = new Deployment({ ...options, stateFile: undefined }, silentLogger, control);
      await deployment.createCheck(partition, { claims: false })();
    }
    await checkLayout(partition);
  };
}

/**
 * Whether the Redis in this configuration directory answers. Also true if the configuration cannot be read. The caller
 * then uses the directory anyway, and reports the error itself.
 */
export async function redisAnswers({ env }: ProgramDeps, configDir: string): Promise<boolean> {
  let redis: Redis | undefined;
  try {
    const { postern } = loadConfig(readPostern, { dir: configDir, env, reader: "command" });
    const [first] = placesOf(postern.redis);
    if (first === undefined) return true;
    redis = connectForRequests(first.target, silentLogger);
    await connectAndCheck(redis, { target: first.target, configDir, deadlineMs: READY_DEADLINE_MS });
    return true;
  } catch (error) {
    return !(error instanceof AppError && error.code === "queue.unavailable");
  } finally {
    redis?.disconnect();
  }
}

/** Runs `work` and returns its exit code. If it throws, prints the error and returns the exit code for that error. */
export async function exitCodeOf({ printError }: ProgramDeps, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (thrown) {
    const error = toAppError(unlessRedis(thrown));
    printError(error);
    return EXIT_CODES[error.code] ?? EXIT.failed;
  }
}

async function connectAndCheck(
  redis: Redis,
  { target, configDir, deadlineMs }: { target: RedisTarget; configDir: string; deadlineMs: number },
): Promise<void> {
  await whenReady(redis, deadlineMs).catch((cause: unknown) => {
    if (cause instanceof AppError && cause.code === "queue.denied") throw cause;
    const reason = `Redis at ${placeOf(target)} cannot be reached: ${messageOf(cause)}${unconfigured(configDir)}`;
    throw new AppError("queue.unavailable", { reason, cause });
  });
}

/**
 * Returns a hint for the error that Redis cannot be reached: the directory has no configuration files, so the default
 * address was used. Empty if it has some.
 */
export function unconfigured(configDir: string): string {
  if (hasConfigFiles(configDir)) return "";
  return `; the directory ${configDir} has no configuration files: give the right directory with --config-dir (postern dev prints its own, in the line "status")`;
}

/**
 * Describes for an error message where Redis is, without its password: the address, or the servers that are asked for
 * the primary's address.
 */
function placeOf(target: RedisTarget): string {
  if ("finder" in target) return `the primary of ${target.finder.servers.map(addressText).join(", ")}`;
  const url = target.url.reveal();
  if (url.startsWith("unix:")) return url;
  return URL.canParse(url) ? new URL(url).host : "the configured address";
}
