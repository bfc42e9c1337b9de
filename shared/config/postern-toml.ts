import { z } from "zod";
import { coversEveryAddress } from "../http/ip/address-list.ts";
import { headerName } from "../webhook-auth/fields.ts";
import { between, rule } from "./between-keys.ts";
import { BODY_BUDGET_BYTES } from "./body-budgets.ts";
import { callbackProblems, callbacks } from "./callbacks-toml.ts";
import { consoleTable } from "./console-toml.ts";
import { address, addressRange, attempts, httpUrl, positive } from "./fields.ts";
import { backoffTable, jobProblems, jobs, OUTLASTS_LOCK, runnerFields, runners } from "./jobs-toml.ts";
import { type RedisTable, redis, runnerRedis, toControlTable } from "./redis-toml.ts";
import { results } from "./results-toml.ts";
import type { SecretSource } from "./secrets.ts";

const THIRTY_DAYS_SECS = 30 * 86_400;

/** `postern.toml`: the settings that all processes share. Every key has a default, and the file may be absent. */
export function posternToml(from: SecretSource) {
  return z
    .strictObject({
      metadata_prefix: headerName.default("X-PLATFORM"),
      ops_address: address.optional(),
      drain_secs: z.number().min(0).max(300).default(5),
      redis: redis(from).prefault({}),
      runner: runner(from).prefault({}),
      runners: runners(from).default({}),
      jobs: jobs.default({}),
      producer: producer.prefault({}),
      results: results(from).prefault({}),
      callbacks: callbacks(from).optional(),
      console: consoleTable.prefault({}),
      limits: limits.prefault({}),
      http: http.prefault({}),
    })
    .check(
      between(
        rule(({ runner, producer }) => runner.timeout_ms < producer.lock_ms, {
          path: ["runner", "timeout_ms"],
          message: OUTLASTS_LOCK,
        }),
        (parsed) => jobProblems(parsed),
        (parsed) => callbackProblems(parsed),
      ),
    );
}
export type PosternToml = z.output<ReturnType<typeof posternToml>>;

const DAY_SECS = 86_400;
const MIB = 1024 * 1024;

/** Limits on the calls that the reference runner remembers. */
const runnerMemory = {
  memory_secs: positive.default(THIRTY_DAYS_SECS),
  answer_secs: positive.optional(),
  result_bytes_max: z
    .int()
    .min(0)
    .default(MIB / 4),
  answers_bytes_max: z
    .int()
    .min(0)
    .default(256 * MIB),
};

const runner = (from: SecretSource) =>
  z
    .strictObject({
      ...runnerFields(from),
      url: httpUrl.default("http://127.0.0.1:8645"),
      redis: runnerRedis(from).optional(),
      ...runnerMemory,
      bind_address: address.default("127.0.0.1:8645"),
      lease_ms: z.int().min(1000).default(30_000),
      concurrency: positive.default(100),
      long_attempts: attempts.default(20),
      long_backoff: backoffTable(1000, 900_000).prefault({}),
      deliver_to: z.array(httpUrl).default([]),
    })
    .check(
      between(
        rule(({ deliver_to, secret }) => deliver_to.length === 0 || secret !== undefined, {
          path: ["deliver_to"],
          message: "needs secret, which signs the results that the runner sends",
        }),
        rule(({ answer_secs = 0, memory_secs }) => answer_secs <= memory_secs, {
          path: ["answer_secs"],
          message: "must be at most memory_secs: an answer is useless without its key",
        }),
        rule(({ result_bytes_max, answers_bytes_max }) => result_bytes_max <= answers_bytes_max, {
          path: ["result_bytes_max"],
          message: "must be at most answers_bytes_max, the limit for all answers together",
        }),
      ),
    )
    .transform(({ answer_secs, ...rest }) => ({
      ...rest,
      answer_secs: answer_secs ?? Math.min(DAY_SECS, rest.memory_secs),
    }));

const producer = z.strictObject({
  concurrency: z.int().min(1).max(10_000).default(100),
  attempts: attempts.default(20),
  lock_ms: z.int().min(1000).default(20_000),
  body_budget_bytes: positive.default(BODY_BUDGET_BYTES),
  backoff: backoffTable(1000, 900_000).prefault({}),
});

const limits = z.strictObject({
  queue_depth_max: positive.default(1_000_000),
  queue_bytes_max: positive.default(4 * 1024 ** 3),
  oldest_age_secs_max: positive.optional(),
  redis_memory_ratio_max: z.number().gt(0).max(1).default(0.85),
  enqueue_timeout_ms: z.int().min(100).max(60_000).default(5000),
  callback_receivers_max: z.int().min(1).max(5000).default(100),
});

const trustedProxy = addressRange.refine(
  (range) => !range.endsWith("/0"),
  "must not cover every address: any client could then forge its address",
);

export const trustedProxies = z
  .array(trustedProxy)
  .refine(
    (ranges) => ranges.some((range) => !trustedProxy.safeParse(range).success) || !coversEveryAddress(ranges),
    "must not cover all addresses together: any client could then forge its address",
  );

export const forwardedHeader = z.enum(["X-Forwarded-For", "Forwarded"]);

const http = z
  .strictObject({
    trusted_proxies: trustedProxies.default([]),
    forwarded_header: forwardedHeader.optional(),
    connections: positive.default(4096),
    body_budget_bytes: positive.default(BODY_BUDGET_BYTES),
    keep_alive_secs: z.number().min(1).max(7200).default(250),
  })
  .check(
    between(
      rule(
        ({ trusted_proxies, forwarded_header }) =>
          trusted_proxies.length > 0 || forwarded_header === undefined,
        { path: ["forwarded_header"], message: "is not used: trusted_proxies is empty" },
      ),
    ),
  )
  .transform(({ forwarded_header = "X-Forwarded-For", ...rest }) => ({ ...rest, forwarded_header }));

/** Returns the runner's Redis: its own, or else that of the deployment. */
export function toRunnerRedis({ redis, runner }: PosternToml): RedisTable {
  return runner.redis ?? toControlTable(redis);
}

/** Returns the options with which the runner keeps its answers (services/runner/kept-answers.ts). */
export function toAnswerOptions({ runner }: PosternToml) {
  return {
    answerMs: runner.answer_secs * 1000,
    resultBytesMax: runner.result_bytes_max,
    answersBytesMax: runner.answers_bytes_max,
  };
}

/** Returns the limits above which a gateway accepts no calls (shared/ingress/backpressure.ts). */
export function toIngressLimits({ limits }: PosternToml) {
  const { queue_depth_max, queue_bytes_max, oldest_age_secs_max, redis_memory_ratio_max } = limits;
  return {
    queueDepthMax: queue_depth_max,
    queueBytesMax: queue_bytes_max,
    oldestAgeMsMax: oldest_age_secs_max === undefined ? undefined : oldest_age_secs_max * 1000,
    redisMemoryRatioMax: redis_memory_ratio_max,
  };
}

/** Returns the options for finding the client of a request behind proxies (shared/http/client-address.ts). */
export function toProxyOptions({ http: { trusted_proxies, forwarded_header } }: PosternToml) {
  return { trustedProxies: trusted_proxies, forwardedHeader: forwarded_header };
}

/** Returns the limits on the connections of a server (shared/http/listen.ts). */
export function toConnectionLimits({ http: { connections, keep_alive_secs } }: PosternToml) {
  return { connectionsMax: connections, keepAliveMs: keep_alive_secs * 1000 };
}
