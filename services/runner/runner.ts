import { randomUUID } from "node:crypto";
import type { RequestListener } from "node:http";
import type { Secret } from "../../shared/crypto/secret.ts";
import { type Listening, listen } from "../../shared/http/listen.ts";
import { type Logger, silentLogger } from "../../shared/log/logger.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import type { DurabilityMode } from "../../shared/redis/durable.ts";
import { DurableRedis } from "../../shared/redis/durable.ts";
import type { Backoff } from "../../shared/time/backoff.ts";
import { type Clock, systemClock } from "../../shared/time/clock.ts";
import { within } from "../../shared/time/within.ts";
import { createCallStore } from "./call-store.ts";
import { createExecute } from "./execute.ts";
import { bytes, json, text } from "./extractors.ts";
import { createForget } from "./forget.ts";
import { Leases } from "./leases.ts";
import { createListCalls } from "./list-calls.ts";
import { LongCalls } from "./long-calls.ts";
import { createLongStore } from "./long-store.ts";
import { createRouter, type Router } from "./router.ts";
import { createRoutes } from "./routes.ts";
import { createRunAgain } from "./run-again.ts";
import { createRunCall } from "./run-call.ts";
import { createRunShort } from "./run-short.ts";
import { createStoreLong } from "./store-long.ts";
import { createTakeJob } from "./take-job.ts";

export type { Answer, Call, Job, Router } from "./router.ts";
export { bytes, createRouter, json, text };

export type RunnerOptions = {
  jobs: Router;
  /** The host's own connection; it must fail fast (`enableOfflineQueue: false`, `maxRetriesPerRequest: 0`). */
  redis: Redis;
  durability?: DurabilityMode;
  /** Any of them may have signed a request; without any, requests need no signature. */
  secrets?: readonly Secret[];
  metadataPrefix?: string;
  /** How long a key and its first answer are remembered. */
  memoryMs?: number;
  /** How long a call stays with a runner that no longer renews it. */
  leaseMs?: number;
  /** Calls run at once; long calls have as many places of their own. */
  concurrency?: number;
  bodyBytesMax?: number;
  /** Failed runs of a long call before it is FAILED and waits for an operator, and the pauses between them. */
  longAttempts?: number;
  longBackoff?: Backoff;
  log?: Logger;
  clock?: Clock;
  random?: () => number;
};

export type Runner = {
  /** Resolves once the first Redis reached has shown that it keeps promises; rejects when it cannot. */
  readonly firstCheck: Promise<void>;
  /** For a host with a server of its own. */
  readonly handler: RequestListener;
  /** Serves on `host:port`. */
  listen(address: string): Promise<Listening>;
  /**
   * Takes no more calls, lets the handlers at work end and gives long calls back to be resumed; after `graceMs` it waits
   * no longer. Leaves the Redis connection to the host.
   */
  close(graceMs?: number): Promise<void>;
};

const DAY_MS = 86_400_000;

const DEFAULTS = {
  durability: "strict",
  secrets: [],
  metadataPrefix: "X-PLATFORM",
  memoryMs: 30 * DAY_MS,
  leaseMs: 30_000,
  concurrency: 100,
  bodyBytesMax: 64 * 1024 * 1024,
  longAttempts: 20,
  longBackoff: { baseMs: 1000, capMs: 900_000 },
  log: silentLogger,
  clock: systemClock,
  random: Math.random,
} as const satisfies Partial<RunnerOptions>;

/**
 * Runs jobs for producers, and remembers what it ran: a call that was answered with 2xx is never run again while its key
 * is remembered. Any number of runners may share one Redis.
 */
export function createRunner(options: RunnerOptions): Runner {
  const settings = { ...DEFAULTS, ...options };
  const { redis, log } = settings;
  const durable = new DurableRedis({ redis, mode: settings.durability, log });
  const ended = new AbortController();
  let draining = false;
  const { routes, longCalls, leases, idle } = assemble(settings, {
    durable,
    ended: ended.signal,
    isDraining: () => draining,
  });
  durable.firstCheck.then(longCalls.wake, () => {});
  const servers: Listening[] = [];

  return {
    firstCheck: durable.firstCheck,
    handler: routes,
    async listen(address) {
      const server = await listen(routes, address);
      servers.push(server);
      return server;
    },
    async close(graceMs = 10_000) {
      draining = true;
      const closed = [...servers.map((server) => server.close(graceMs)), idle(), longCalls.stop()];
      const outcome = await within(graceMs, Promise.all(closed));
      ended.abort(new Error("the runner has stopped"));
      leases.stop();
      durable.stop();
      if (outcome.kind === "failed") throw outcome.error;
    },
  };
}

type Settings = Required<RunnerOptions>;
type Parts = { durable: DurableRedis; ended: AbortSignal; isDraining: () => boolean };

function assemble(settings: Settings, { durable, ended, isDraining }: Parts) {
  const { jobs, redis, leaseMs, log, clock } = settings;
  const store = { durable, owner: randomUUID(), leaseMs, memoryMs: settings.memoryMs };
  const calls = createCallStore(store);
  const longStore = createLongStore(store);
  const leases = new Leases({ redis, renew: calls.renew, leaseMs });
  const forget = createForget(calls, log);
  const execute = createExecute({ ...settings, ended });
  const long = { attempts: settings.longAttempts, backoff: settings.longBackoff, store: longStore };
  const longCalls = new LongCalls({ ...settings, ...long, calls, leases, execute, ended });
  const runShort = createRunShort({ calls, execute, forget, ended, log });
  const storeLong = createStoreLong({ longStore, forget, wake: longCalls.wake });
  const { runCall, idle } = createRunCall({ calls, leases, runShort, storeLong });
  const takeJob = createTakeJob({ ...settings, rules: settings, runCall, isDraining });
  const runAgain = createRunAgain({ rules: settings, longStore, wake: longCalls.wake, isDraining, log });
  const listCalls = createListCalls(redis, clock);
  const routes = createRoutes({ jobs, durable, listCalls, takeJob, runAgain, isDraining });
  return { routes, longCalls, leases, idle };
}
