import { hostname } from "node:os";
import { z } from "zod";
import type { PosternFile } from "../../config/schema/files.ts";
import { ORIGINS, type Origin } from "../../shared/call/origin.ts";
import { createResults } from "../../shared/call/results/store.ts";
import { createCallHistory } from "../../shared/call-search/history/keep.ts";
import { toCallbackOptions } from "../../shared/config/callbacks-toml.ts";
import { toHistoryLimits } from "../../shared/config/console-toml.ts";
import { isTable } from "../../shared/config/fields.ts";
import { DEFAULT_RUNNER, toBackoff, toJobs } from "../../shared/config/jobs-toml.ts";
import { type Problem, problem } from "../../shared/config/problem.ts";
import { type PosternConfig, readPostern } from "../../shared/config/read-postern.ts";
import { toResultLimits } from "../../shared/config/results-toml.ts";
import { explain, partitionChecks } from "../../shared/http/readiness.ts";
import type { CallsHost, PartKind } from "../../shared/part/host.ts";
import { functionOption, openPart, type PartOptions } from "../../shared/part/options.ts";
import { type Composed, createPart, type Part } from "../../shared/part/part.ts";
import { type Clock, systemClock } from "../../shared/platform/time/clock.ts";
import { createCallRecords } from "../../shared/queue/call-record.ts";
import { beat } from "../../shared/queue/heartbeat.ts";
import { openJobs } from "../../shared/queue/jobs.ts";
import type { JobLimits } from "../../shared/queue/limits.ts";
import {
  CALLBACKS_GATE,
  isKnown,
  isOfCallbacks,
  originOf,
  receiverOfGate,
} from "../../shared/queue/queue-name.ts";
import { clockCheck, redisClock } from "../../shared/redis/clock.ts";
import { createClaimData } from "../../shared/redis/deployment.ts";
import { DurableRedis } from "../../shared/redis/durable.ts";
import { logOf, type Partitioned, type Partitions } from "../../shared/redis/partition.ts";
import { publishToFollowers } from "../../shared/telemetry/events/publish.ts";
import { publishCallbackKeys } from "../../shared/telemetry/processes/callback-keys.ts";
import type { RunnerHealth } from "../../shared/telemetry/processes/runner-health.ts";
import { createCallbacks } from "./callbacks/callbacks.ts";
import { consume } from "./consumer/consume.ts";
import type { ServedPartition } from "./consumer/station.ts";
import type { Deliver } from "./consumer/taken.ts";
import { createDeliver, type Inject } from "./deliver.ts";
import { createRetryPolicy } from "./retry-policy.ts";
import { createRunners, type Runners } from "./runners.ts";
import { createThrottle } from "./throttle.ts";

export type { PosternFile } from "../../config/schema/files.ts";
export type { RunnerAnswer } from "../../shared/call/results/answer.ts";
export type { Logger } from "../../shared/platform/log/logger.ts";
export type { Hold } from "./consumer/hold.ts";
export type { DeliveredCall, Inject } from "./deliver.ts";
export { NotNow, Refused } from "./retry-policy.ts";

/**
 * Options of `createProducer`. Set either `inject`, to handle the calls in your own process, or `runner.url` of `postern`, to
 * send them to a runner.
 */
export interface ProducerOptions extends PartOptions {
  /** Receives each call in this process, instead of a runner. */
  inject?: Inject;
  /** Origins of the calls that the producer takes. Default: all. */
  origins?: readonly Origin[];
}

export type Producer = Part & {
  /** Name of this producer. It appears in the log, and in Redis in the lock of each call that the producer has in flight. */
  readonly workerId: string;
};

/** @internal */
export const PRODUCER: PartKind<PosternConfig> = {
  kind: "producer",
  need: "work",
  hasCalls: true,
  read: (tables, env) => readPostern(tables, env, "producer"),
};

/**
 * Creates a producer for your own program. It takes calls from the queues and injects them, with retries, until the runner
 * accepts them or they fail. Any number of producers may run. A call is sent at least once, always under the same idempotency
 * key. Throws `start.config_invalid`, which names every invalid option.
 */
export function createProducer(options: ProducerOptions): Producer {
  const { inject, origins, postern: table = {} } = options;
  // A configuration is valid only if the timeout of its runner is below `producer.lock_ms`. With `inject` there is no runner,
  // so a timeout of 1 ms lets every `lock_ms` pass.
  const withoutRunner = isTable(table) && { ...table, runner: { timeout_ms: 1 } };
  const checked = inject && withoutRunner ? { ...options, postern: withoutRunner } : options;
  const part: PartKind<PosternConfig> = {
    ...PRODUCER,
    read(tables, env) {
      if (isTable(table)) tables.report("postern.toml", targetProblems(inject, table));
      return PRODUCER.read(tables, env);
    },
  };
  const own = { inject: functionOption.optional(), origins: z.array(z.enum(ORIGINS)).min(1).optional() };
  const host = openPart(checked, part, own);
  const producer = composeProducer({ ...host, inject, origins, setsLimits: table.jobs !== undefined });
  return { ...createPart(producer, host), workerId: producer.workerId };
}

/** Reports options that conflict: calls go either to `inject` or to runners. */
function targetProblems(inject: Inject | undefined, { runner, runners, jobs }: PosternFile): Problem[] {
  // The missing URL must be found here, because the schema of postern.toml replaces it by a default.
  if (inject === undefined && runner?.url === undefined)
    return [{ ...problem(["runner", "url"], "is missing: set it, or inject"), other: ["runner"] }];
  if (inject === undefined) return [];
  const unused = (path: string | string[]) => problem(path, "is not used: inject gets every call");
  return [
    ...(runner === undefined ? [] : [unused("runner")]),
    ...(runners === undefined ? [] : [unused("runners")]),
    ...Object.entries(jobs ?? {}).flatMap(([key, job]) =>
      (["runner", "timeout_ms"] as const)
        .filter((name) => job?.[name] !== undefined)
        .map((name) => unused(["jobs", key, name])),
    ),
  ];
}

type Options = CallsHost & {
  /** Receives all calls, instead of the runners of `postern`. */
  inject?: Inject | undefined;
  origins?: readonly Origin[] | undefined;
  /**
   * True if the limits of `postern` replace all limits of jobs, for all producers. They are set before this producer takes
   * its first call. The limits of jobs that `postern` does not name are removed.
   */
  setsLimits?: boolean;
  random?: () => number;
};

/** @internal */
export type ComposedProducer = Composed & {
  readonly workerId: string;
  /** The Redis server of each partition. */
  readonly servers: readonly DurableRedis[];
  /** Maximum number of calls in flight. */
  readonly slots: number;
  /** Returns the number of calls in flight. */
  inFlight(): number;
  /** Returns the state of each runner. */
  runners(): RunnerHealth[];
  /** Returns the number of callback receivers that do not answer. */
  receiversAway(): number;
};

/** @internal Composes the producer from its parts. */
export function composeProducer(options: Options): ComposedProducer {
  const { postern, partitions, origins, clock = systemClock } = options;
  const { concurrency, lock_ms: lockMs, body_budget_bytes: bodyBudgetBytes } = postern.producer;
  const workerId = `${hostname()}:${process.pid}:${clock().toString(36)}`;
  const log = publishToFollowers(options.log, { partition: partitions.control, service: "producer", clock });
  const jobs = toJobs(postern);
  const callbacks = postern.callbacks && toCallbackOptions(postern.callbacks);
  const runners = options.inject === undefined ? openRunners(options, jobs) : undefined;
  if (runners !== undefined) options.reports?.watchRunners(runners);
  const gates = openJobs(partitions);
  const servers = openServers({ ...options, gates, log }, (index) => {
    presence.announce(index);
    consumer.refill();
  });
  const delivering = createDelivering({ ...options, gates, jobs, callbacks, runners, log, workerId });
  const prepare = createPrepare(gates, options.setsLimits ? jobs : undefined, callbacks);
  const served = partitions.map((partition, index): ServedPartition => {
    const [server, deliver] = [servers.all[index], delivering.deliver.all[index]] as [DurableRedis, Deliver];
    return { partition, server, deliver, prepare: prepare.all[index] };
  });
  const consumer = consume({
    served,
    serves: (queue) =>
      isKnown(queue) &&
      (callbacks !== undefined || !isOfCallbacks(queue)) &&
      (origins === undefined || origins.some((origin) => originOf(queue) === origin)),
    isClosed: (gate) => receiverOfGate(gate) === undefined && runners?.isAway(gate) === true,
    slots: concurrency,
    bodyBudgetBytes,
    lockMs,
    results: toResultLimits(postern, partitions.all.length),
    workerName: workerId,
    log,
  });
  runners?.onChange(consumer.refill);
  const presence = openPresence(partitions, servers, { workerId, clock, callbacks });
  const longestMs = graceMsOf(options, jobs);
  let isStopped = false;
  const stop = (): void => {
    isStopped = true;
    consumer.stop();
  };

  return {
    workerId,
    servers: servers.all,
    slots: concurrency,
    inFlight: consumer.inFlight,
    runners: () => runners?.health() ?? [],
    receiversAway: delivering.receiversAway,
    firstCheck: consumer.ready(),
    readiness() {
      const { isReady, checks } = presence.check();
      return {
        ready: isReady && !isStopped,
        checks: { ...checks, ...clockCheck(...partitions.all.map(({ redis }) => redis)) },
      };
    },
    graceMs: longestMs,
    stop,
    async close(graceMs = longestMs) {
      stop();
      await consumer.close(graceMs);
      await delivering.close();
      for (const server of servers.all) server.stop();
      await presence.stop();
      log.stop();
      log.info("producer.stopped", { workerId });
    },
  };
}

/**
 * Checks the Redis of each partition. Partition 0 has the operators' pauses and endpoint states. Before another partition is
 * used, they are copied to it, because some may have been set while it was away.
 */
function openServers(
  { postern, partitions, deployments, gates, log }: Options & { gates: Gates },
  onUsable: (index: number) => void,
): Partitioned<DurableRedis> {
  const servers = partitions.map((partition, index) => {
    const claimData = createClaimData(partition, deployments?.all[index]);
    return new DurableRedis({
      redis: partition.redis,
      // A single server's writes need no proof: if it loses the producer's last writes, the producer repeats the work. If
      // there are replicas, they must confirm the writes. Otherwise a failover could make a replica without these writes the
      // primary, and calls would be sent twice.
      mode: postern.redis.durability === "replicated" ? "replicated" : "relaxed",
      async checkData() {
        await claimData();
        if (index > 0) await gates.sync(index, servers.control);
      },
      onUsable: () => onUsable(index),
      // Drops the line `redis.ready`: it would report the mode above, which may differ from the configured durability.
      log: { ...logOf(partition, log), info() {} },
    });
  });
  return servers;
}

type Jobs = ReturnType<typeof toJobs>;
type Callbacks = ReturnType<typeof toCallbackOptions>;

/**
 * Reports regularly to each partition that this producer is alive. Also publishes in partition 0 the public keys that verify
 * callbacks. Writes nothing to a Redis that cannot be used.
 */
function openPresence(
  partitions: Partitions,
  servers: Partitioned<DurableRedis>,
  { callbacks, ...worker }: { workerId: string; clock: Clock; callbacks: Callbacks | undefined },
) {
  const isUsable = (index: number) => () => servers.all[index]?.isUsable === true;
  const heartbeats = partitions.map((partition, index) =>
    beat(partition, { ...worker, isUsable: isUsable(index) }),
  );
  const callbackKeys = callbacks && publishCallbackKeys(partitions.control, callbacks.secrets, isUsable(0));
  return {
    announce(index: number): void {
      heartbeats.all[index]?.beat();
      if (index === 0) callbackKeys?.publish();
    },

    /** Returns whether calls can be taken from at least one partition. */
    check() {
      const found = partitions.map((_, index) => {
        const server = servers.all[index] as DurableRedis;
        const beating = heartbeats.all[index]?.isFresh() === true;
        return { ...explain(() => server.server().proof), checks: { beating } };
      }).all;
      return {
        isReady: found.some(({ ok, checks }) => ok && checks.beating),
        checks: { ...partitionChecks(found), beating: found.some(({ checks }) => checks.beating) },
      };
    },

    async stop(): Promise<void> {
      callbackKeys?.stop();
      await Promise.all(heartbeats.all.map((heartbeat) => heartbeat.stop()));
    },
  };
}

/** Returns the longest time, in ms, that the injections in flight may still take when the producer stops. */
function graceMsOf({ inject, postern }: Options, jobs: Jobs): number {
  const runners = [postern.runner, ...Object.values(postern.runners)].map(({ timeout_ms }) => timeout_ms);
  const ofJobs = [...jobs.values()].map(({ timeoutMs = 0 }) => timeoutMs);
  const timeouts = [...runners, ...ofJobs, postern.callbacks?.timeout_ms ?? 0];
  return (inject === undefined ? Math.max(...timeouts) : postern.producer.lock_ms) + 1000;
}

/**
 * Opens the runners. Signatures and the health of runners use the time of Redis, so they stay correct if this machine's clock
 * is wrong.
 */
function openRunners(
  { postern, partitions, log, clock = redisClock(partitions.control.redis).now }: Options,
  jobs: Jobs,
): Runners {
  const named = Object.entries({ ...postern.runners, [DEFAULT_RUNNER]: postern.runner });
  return createRunners({
    runners: Object.fromEntries(
      named.map(([name, { url, secret, timeout_ms: timeoutMs }]) => [
        name,
        { url, secret: secret?.[0], timeoutMs },
      ]),
    ),
    jobs,
    connections: postern.producer.concurrency,
    resultBytesMax: postern.results.result_bytes_max,
    clock,
    log,
  });
}

type Gates = ReturnType<typeof openJobs>;

type Delivering = Options & {
  gates: Gates;
  jobs: Jobs;
  callbacks: Callbacks | undefined;
  runners: Runners | undefined;
  workerId: string;
};

/**
 * Delivers calls to `inject` or to the runners of their jobs, and callbacks to their receivers. The time of a call is that of
 * the Redis of its partition.
 */
function createDelivering(options: Delivering) {
  const { postern, partitions, gates, jobs, runners, log, workerId, random = Math.random } = options;
  const clocks = partitions.map(({ redis }) => options.clock ?? redisClock(redis).now);
  const results = partitions.map((partition) => createResults(partition));
  const callbacks =
    options.callbacks &&
    createCallbacks({
      ...options.callbacks,
      results: { read: (callId) => results.of(callId).read(callId) },
      clock: clocks.control,
      log,
    });
  const { attempts, backoff } = postern.producer;
  const policy = createRetryPolicy({ attempts, backoff: toBackoff(backoff), jobs, random });
  const ofCallbacks = callbacks && {
    inject: callbacks.inject,
    isAway: () => false,
    archive: () => {},
    policy: createRetryPolicy({ ...(options.callbacks as Callbacks), jobs: new Map(), random }),
  };
  const throttle = createThrottle({
    throttleJob: gates.throttle,
    clock: options.clock ?? systemClock,
    log,
  });
  const limits = toHistoryLimits(postern);
  const histories = partitions.map((partition, index) => {
    const clock = clocks.all[index] as Clock;
    return limits && createCallHistory({ partition, limits, clock, log: logOf(partition, log) });
  });

  const deliver = partitions.map((partition, index): Deliver => {
    const shared = {
      records: createCallRecords(partition),
      throttle,
      partitions: partition.count,
      resultBytesMax: postern.results.result_bytes_max,
      clock: clocks.all[index] as Clock,
      log,
      workerId,
    };
    const deliverCall = createDeliver({
      ...shared,
      inject: options.inject ?? (runners as Runners).inject,
      isAway: (job) => runners?.isAway(job) === true,
      archive: (call, tried) => histories.all[index]?.add(call, tried),
      policy,
    });
    const deliverCallback = ofCallbacks && createDeliver({ ...shared, ...ofCallbacks });
    return (taken, hold) => {
      const chosen = isOfCallbacks(taken.queue) ? deliverCallback : deliverCall;
      return chosen === undefined ? Promise.resolve({ kind: "requeue" }) : chosen(taken, hold);
    };
  });

  return {
    deliver,
    receiversAway: () => callbacks?.receiversAway() ?? 0,
    async close(): Promise<void> {
      await callbacks?.close();
      await Promise.all(histories.all.map((history) => history?.stop()));
      await runners?.close();
    },
  };
}

/**
 * Creates for each partition the function that sets the limits there before the first call is taken. It is undefined if this
 * producer sets no limits.
 */
function createPrepare(
  gates: Gates,
  limits: ReadonlyMap<string, JobLimits> | undefined,
  callbacks: Callbacks | undefined,
) {
  const ofCallbacks = callbacks && { concurrency: callbacks.concurrency };
  const all = limits && ofCallbacks ? new Map([...limits, [CALLBACKS_GATE, ofCallbacks]]) : limits;
  return gates.limitsIn.map((limitsIn) => {
    if (all !== undefined) return () => limitsIn.configure(all);
    return ofCallbacks && (() => limitsIn.set(CALLBACKS_GATE, ofCallbacks));
  });
}
