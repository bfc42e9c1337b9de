import { endpointPaths } from "../../shared/config/endpoint-names.ts";
import { createJobNames } from "../../shared/config/job-names.ts";
import type { OperatorToml } from "../../shared/config/operator-toml.ts";
import { toConnectionLimits, toProxyOptions } from "../../shared/config/postern-toml.ts";
import { toDurability } from "../../shared/config/redis-toml.ts";
import type { Env } from "../../shared/config/secrets.ts";
import { bulkWorkers } from "../../shared/console/bulk-operations.ts";
import type { OPERATIONS } from "../../shared/console/contract/contract.ts";
import { createHandlers, type HandlersDeps } from "../../shared/console/contract/handlers.ts";
import type { Handlers, Work } from "../../shared/console/contract/operation.ts";
import { createOverview } from "../../shared/console/overview/overview.ts";
import { createRunStore } from "../../shared/console/runs/store.ts";
import { startRunWorker } from "../../shared/console/runs/worker.ts";
import { createTokenSource } from "../../shared/console/tokens.ts";
import { createClientAddressOf } from "../../shared/http/client-address.ts";
import { explain, partitionChecks, type Readiness } from "../../shared/http/readiness.ts";
import { createRefusalLog } from "../../shared/http/refusal-log.ts";
import type { CallsHost } from "../../shared/part/host.ts";
import type { ComposedServer } from "../../shared/part/part.ts";
import { AppError, messageOf } from "../../shared/platform/errors/app-error.ts";
import { createConcurrencyLimit } from "../../shared/platform/lifecycle/concurrency-limit.ts";
import { createEventCounter } from "../../shared/platform/log/event-counter.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { createAudit } from "../../shared/redis/audit/audit.ts";
import { clockCheck, redisClock } from "../../shared/redis/clock.ts";
import { DurableRedis } from "../../shared/redis/durable.ts";
import { checkLayout } from "../../shared/redis/layout.ts";
import { unavailable } from "../../shared/redis/merge.ts";
import { logOf, type Partition, type Partitioned, type Partitions } from "../../shared/redis/partition.ts";
import { createAssertHost } from "./auth/hosts.ts";
import { createCheckToken, createIdentify } from "./auth/identify.ts";
import { createLockout } from "./auth/lockout.ts";
import { createAssertSameSite } from "./auth/same-site.ts";
import { createSessions } from "./auth/sessions.ts";
import { createCallEvents } from "./call-events.ts";
import { createLive, type LiveTimes } from "./live.ts";
import { bufferReport } from "./report.ts";
import { createRequests } from "./requests.ts";
import { PACE, type Pace } from "./send.ts";
import { createServePage } from "./serve-page.ts";
import { createServer } from "./server.ts";

type Options = CallsHost & {
  operator: OperatorToml;
  /** Host part of the address on which the console listens. */
  bindHost: string;
  /** Folder with the files of the page. */
  pageDir: string;
  /** Folder with the configuration files of the other services. */
  configDir: string;
  env: Env;
  /**
   * Redis connections with a longer timeout. They are for replies that take long, such as the body of a call, and for bulk
   * operations.
   */
  work: Partitions;
  liveTimes?: Partial<LiveTimes>;
  pace?: Pace;
};

export type ComposedOperator = Omit<ComposedServer, "stop"> & {
  /** The Redis server of each partition. */
  servers: readonly DurableRedis[];
  /** Number of open streams of live data. */
  liveStreams(): number;
  /** Reports the console as not ready, and ends all streams. */
  drain(): void;
};

/** Limit on the jobs in the live data. */
const LIVE_JOBS = 200;

/**
 * Limits on the requests that read much of Redis at one time (`LISTS`), and on the bodies in memory (`BODIES`). One client
 * name gets at most half of each.
 */
const LISTS = { max: 16, perKeyMax: 8, what: "long readings", code: "request.rate_limited" } as const;
const BODIES = { max: 8, perKeyMax: 4, what: "bodies", code: "request.rate_limited" } as const;

/**
 * Composes the console from its parts. Several replicas may run, so all state that they must share is in the configuration
 * and in Redis.
 */
export function composeOperator(options: Options): ComposedOperator {
  const { operator, postern, log, clock = redisClock(options.partitions.control.redis).now } = options;
  const durables = watchRedis(options);
  const durable = durables.control;
  const guard = guardOf(durables);
  const [partitions, work] = [options.partitions.guardedBy(guard), options.work.guardedBy(guard)];
  const partition = partitions.control;
  const { tokens, public_url: publicUrl, session_secs } = operator;
  const addressOf = createClientAddressOf(toProxyOptions(postern));
  const checkToken = createCheckToken(tokens, createLockout(clock));
  const isSecure = publicUrl?.startsWith("https:") === true;
  const sessions = createSessions({ tokens, partition, clock, isSecure, sessionMs: session_secs * 1000 });
  const answered = createEventCounter(log, "operator.answered");
  const refusals = createRefusalLog(log, "operator.refused");
  const common = { partitions, clock, log, ...readConfigured(options, clock) };
  const kinds = bulkWorkers({ ...common, partitions: work });
  const worker = startRunWorker({ partition: work.control, kinds, log });
  const { configDir, env, liveTimes: times } = options;
  const overview = createOverview({ partitions, clock, configDir, env, ...toDurability(postern.redis) });
  const slots = { lists: createConcurrencyLimit(LISTS), bodies: createConcurrencyLimit(BODIES) };
  const runs = createRunStore(partition);
  const operationsOf = createOperationsOf({ ...common, overview, patient: work, runs, wake: worker.wake });
  const listJobs = () => operationsOf("").listJobs({ limit: LIVE_JOBS, cursor: undefined }, {});
  const assertUsable = () => durable.assertUsable();
  const note = (error: AppError) => refusals.note(error, { route: "GET /api/v1/live" });
  const live = createLive({ overview, heavy: slots.lists, clock, times, listJobs, assertUsable, note });
  const audit = createAuditSession(partition, clock, log);
  const callEvents = createCallEvents(partition);
  let ending = false;

  return {
    handler: createServer({
      requests: createRequests({ sessions, checkToken, live, callEvents, audit }),
      servePage: createServePage(options.pageDir),
      assertHost: assertHostOf(options),
      assertSameSite: createAssertSameSite(publicUrl),
      identify: createIdentify({ tokens, checkToken, sessions }),
      addressOf,
      operationsOf,
      answered,
      refusals,
      slots,
      pace: options.pace ?? PACE,
      assertUsable,
    }),
    readiness: () => readinessOf(durables, ending),
    servers: durables.all,
    liveStreams: live.count,
    http: toConnectionLimits(postern),
    firstCheck: durable.firstCheck,
    graceMs: 5000,
    drain() {
      ending = true;
      live.end();
    },
    async close() {
      live.end();
      await worker.stop(); // other replicas continue its runs
      answered.flush();
      refusals.flush();
      for (const each of durables.all) each.stop();
    },
  };
}

/**
 * Watches whether each Redis is durable and has the right data. The console also works with a Redis that is not durable,
 * because it must show operators this problem.
 */
function watchRedis({ partitions, deployments, log }: Options): Partitioned<DurableRedis> {
  return partitions.map((partition, index) => {
    const check = deployments?.all[index]?.createCheck(partition, { claims: false });
    return new DurableRedis({
      redis: partition.redis,
      mode: "relaxed",
      async checkData() {
        await check?.();
        await checkLayout(partition);
      },
      log: { ...logOf(partition, log), info() {} }, // hides lines about the durability of writes, which the console does not need
    });
  });
}

/**
 * Returns a function that throws if a partition cannot be used now. It does not check partition 0, because each request
 * checks that one anyway.
 */
function guardOf({ all }: Partitioned<DurableRedis>): (index: number) => void {
  return (index) => {
    if (index === 0) return;
    try {
      all[index]?.assertUsable();
    } catch (error) {
      throw error instanceof AppError ? unavailable({ index, count: all.length }, error) : error;
    }
  };
}

/** Reports the console as ready while partition 0 can be used. */
function readinessOf({ all, control }: Partitioned<DurableRedis>, draining: boolean): Readiness {
  return {
    ready: control.isUsable && !draining,
    checks: {
      ...partitionChecks(all.map(checkOf)),
      ...clockCheck(...all.map(({ redis }) => redis)),
      draining,
    },
  };
}

function checkOf(durable: DurableRedis) {
  const maxmemory_bytes = durable.isUsable ? durable.server().maxMemoryBytes : null;
  return { ...explain(() => durable.server().proof), checks: { maxmemory_bytes } };
}

/**
 * Writes lines about sessions in the audit log. If this fails, the sign-in still succeeds: an operator must be able to see
 * in the console that Redis accepts no writes. A wrong token leaves no line, so that strangers cannot write to Redis.
 */
function createAuditSession(
  partition: Partition,
  clock: Clock,
  log: Logger,
): Parameters<typeof createRequests>[0]["audit"] {
  const audit = createAudit(partition, log);
  return (action, entry) =>
    audit({ at: clock(), action, ...entry }).catch((error: unknown) => {
      log.warn("operator.audit_failed", { action, by: entry.by, reason: messageOf(error) });
    });
}

function assertHostOf({ operator, bindHost }: Options): ReturnType<typeof createAssertHost> {
  const { allowed_hosts: allowedHosts, public_url: publicUrl } = operator;
  return createAssertHost({ allowedHosts, publicUrl, bindHost });
}

/** Reads the configuration files of the other services. */
function readConfigured({ configDir, env, postern }: Options, clock: Clock) {
  return {
    tokens: createTokenSource({ configDir, env, clock }),
    paths: () => endpointPaths(configDir),
    jobNames: createJobNames(configDir),
    countsEarned: postern.console.report,
    runnerMemoryMs: postern.runner.memory_secs * 1000,
  };
}

/**
 * Returns a function that returns the operations for a client. The audit log then shows the client's name for what they do.
 * The cache needs no limit, because there are only as many names as tokens.
 */
function createOperationsOf(
  deps: Omit<HandlersDeps, "by">,
): (by: string) => Handlers<typeof OPERATIONS, Work> {
  const known = new Map<string, Handlers<typeof OPERATIONS, Work>>();
  return (by) => {
    const found = known.get(by);
    if (found !== undefined) return found;
    const handlers = createHandlers({ ...deps, by });
    const own = {
      ...handlers,
      getRefundReport: (asked: unknown, work: Work) =>
        bufferReport(() => handlers.getRefundReport(asked, work)),
    };
    known.set(by, own);
    return own;
  };
}
