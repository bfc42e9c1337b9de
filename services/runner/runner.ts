import { randomUUID } from "node:crypto";
import type { RequestListener } from "node:http";
import { Secret } from "../../shared/crypto/secret.ts";
import { type Listening, listen } from "../../shared/http/listen.ts";
import { type Logger, silentLogger } from "../../shared/log/logger.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import { DurableRedis } from "../../shared/redis/durable.ts";
import type { DurabilityMode } from "../../shared/redis/server-state.ts";
import type { Backoff } from "../../shared/time/backoff.ts";
import { type Clock, systemClock, within } from "../../shared/time/clock.ts";
import { createRequestChecks } from "./authenticate.ts";
import { createCallStore, createUntilStored } from "./call-store.ts";
import { KeptAnswers } from "./kept-answers.ts";
import { Leases } from "./leases.ts";
import { createListCalls } from "./list-calls.ts";
import { LongCalls } from "./long-calls.ts";
import { createLongStore } from "./long-store.ts";
import type { Router } from "./router.ts";
import { createRoutes, createRunAgain, createTakeJob } from "./routes.ts";
import { createExecute, createRunBegun, createRunCall } from "./run-call.ts";

export type { Answer, Call, Extractor, Job, LongJob, Router, ShortJob } from "./router.ts";
export { bytes, createRouter, json, text } from "./router.ts";

export type RunnerOptions = {
  jobs: Router;
  /** The host's own connection; it must fail fast (`enableOfflineQueue: false`, `maxRetriesPerRequest: 0`). */
  redis: Redis;
  durability?: DurabilityMode;
  /** Any of them may have signed a request. Without secrets, requests need no signature. */
  secrets?: readonly (Secret | string)[];
  metadataPrefix?: string;
  /** How long a key is remembered, with the status and the digest of its first answer. */
  memoryMs?: number;
  /** How long the first answer is kept whole, if there is room, and its call listed. At most `memoryMs` counts. */
  answerMs?: number;
  /** A larger answer is not kept whole. */
  resultBytesMax?: number;
  /** What all answers together may take that are kept whole; the oldest give way. */
  answersBytesMax?: number;
  /** Above this part of Redis' `maxmemory`, no answer is kept whole. */
  answersMemoryRatioMax?: number;
  /** How long a call stays with a runner that no longer renews its lease. */
  leaseMs?: number;
  /** How many requests are taken at once, and how many long calls run at once beside them. */
  concurrency?: number;
  bodyBytesMax?: number;
  /** How many runs of a long call may fail before it is FAILED and waits for an operator. */
  longAttempts?: number;
  /** The pauses between failed runs of a long call. */
  longBackoff?: Backoff;
  log?: Logger;
  clock?: Clock;
  random?: () => number;
};

export type Runner = {
  /** Resolves once Redis has shown that it keeps what it is given; rejects if the first Redis reached does not. */
  readonly firstCheck: Promise<void>;
  /** For a host with a server of its own. */
  readonly handler: RequestListener;
  /** Serves on `host:port`. */
  listen(address: string): Promise<Listening>;
  /**
   * Takes no more calls, lets running handlers end, and gives long calls back so that they are resumed. Waits at most
   * `graceMs` (10 s). Leaves the Redis connection to the host.
   */
  close(graceMs?: number): Promise<void>;
};

const DAY_MS = 86_400_000;

/**
 * Runs jobs for producers and remembers what it ran: a call that was answered with 2xx never runs again while its key is
 * remembered. Any number of runners may share one Redis.
 */
export function createRunner({
  jobs,
  redis,
  durability = "strict",
  secrets = [],
  metadataPrefix = "X-PLATFORM",
  memoryMs = 30 * DAY_MS,
  answerMs = DAY_MS,
  resultBytesMax = 256 * 1024,
  answersBytesMax = 256 * 1024 * 1024,
  answersMemoryRatioMax = 0.75,
  leaseMs = 30_000,
  concurrency = 100,
  bodyBytesMax = 64 * 1024 * 1024,
  longAttempts = 20,
  longBackoff = { baseMs: 1000, capMs: 900_000 },
  log = silentLogger,
  clock = systemClock,
  random = Math.random,
}: RunnerOptions): Runner {
  const abort = new AbortController();
  const ended = abort.signal;
  let draining = false;
  const isDraining = () => draining;

  const durable = new DurableRedis({ redis, mode: durability, log });
  const store = { durable, owner: randomUUID(), leaseMs, memoryMs };
  const answers = new KeptAnswers({
    durable,
    answerMs,
    resultBytesMax,
    answersBytesMax,
    answersMemoryRatioMax,
    log,
  });
  const calls = createCallStore({ ...store, answers });
  const longStore = createLongStore(store);
  const untilStored = createUntilStored({ ended, log });
  const leases = new Leases({ redis, renew: calls.renew, leaseMs });
  const execute = createExecute({ metadataPrefix, ended, log });

  const longCalls = new LongCalls({
    jobs,
    calls,
    longStore,
    leases,
    leaseMs,
    execute,
    untilStored,
    concurrency,
    attempts: longAttempts,
    backoff: longBackoff,
    clock,
    random,
    log,
  });
  const { wake } = longCalls;
  durable.firstCheck.then(wake, () => {});

  const { runShort, storeLong } = createRunBegun({ calls, longStore, execute, untilStored, wake, log });
  const { runCall, idle } = createRunCall({ calls, leases, runShort, storeLong });

  const checks = createRequestChecks({
    secrets: secrets.map((secret) => (typeof secret === "string" ? new Secret(secret) : secret)),
    metadataPrefix,
    clock,
  });
  const takeJob = createTakeJob({ jobs, checks, runCall, concurrency, bodyBytesMax, isDraining, clock, log });
  const runAgain = createRunAgain({ checks, longStore, wake, isDraining, log });
  const listCalls = createListCalls(redis, clock);
  const handler = createRoutes({ jobs, durable, listCalls, takeJob, runAgain, isDraining });

  const servers: Listening[] = [];

  return {
    firstCheck: durable.firstCheck,
    handler,
    async listen(address) {
      const server = await listen(handler, address);
      servers.push(server);
      return server;
    },
    async close(graceMs = 10_000) {
      draining = true;
      const closed = [...servers.map((server) => server.close(graceMs)), idle(), longCalls.stop()];
      const outcome = await within(graceMs, Promise.all(closed));
      abort.abort(new Error("the runner has stopped"));
      for (const part of [leases, answers, durable]) part.stop();
      if (outcome.kind === "failed") throw outcome.error;
    },
  };
}
