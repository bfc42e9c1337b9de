import { expect, test } from "vitest";
import { createRetryPolicy } from "../../../services/producer/retry-policy.ts";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { toJobs } from "../../../shared/config/jobs-toml.ts";
import { toRunnerRedis } from "../../../shared/config/postern-toml.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { dirWith, type Files, problemsOf } from "./files.ts";

const problems = (files: Files) =>
  problemsOf(() => loadConfig(readWebhooks, { dir: dirWith(files), env: {} }));

test("a forwarded_header that no proxy sets is refused", () => {
  expect(problems({ "postern.toml": '[http]\nforwarded_header = "Forwarded"' })).toEqual([
    "postern.toml: http.forwarded_header: is not used: trusted_proxies is empty",
  ]);
});

test("the default forwarded_header is X-Forwarded-For", () => {
  const http = (lines: string) =>
    loadConfig(readWebhooks, {
      dir: dirWith({ "postern.toml": `[http]\ntrusted_proxies = ["10.0.0.1"]\n${lines}` }),
      env: {},
    }).postern.http.forwarded_header;
  expect(http("")).toBe("X-Forwarded-For");
  expect(http('forwarded_header = "Forwarded"')).toBe("Forwarded");
});

test.each([
  ["0.0.0.0/1", "128.0.0.0/1"],
  ["0.0.0.0/8", "0.0.0.0/1", "128.0.0.0/1", "128.0.0.0/1"],
  ["10.0.0.0/8", "0.0.0.0/2", "64.0.0.0/2", "192.0.0.0/2", "128.0.0.0/2"],
  ["::/1", "8000::/1", "10.0.0.0/8"],
])("trusted proxies that together cover every address are refused: %s", (...ranges) => {
  const toml = `[http]\ntrusted_proxies = ${JSON.stringify(ranges)}`;
  expect(problems({ "postern.toml": toml })).toEqual([
    expect.stringContaining("postern.toml: http.trusted_proxies: must not cover all addresses together"),
  ]);
});

test("many trusted proxies are accepted if they do not cover every address", () => {
  const ranges = ["0.0.0.0/1", "128.0.0.0/2", "0.0.0.0/1", "64.0.0.0/2", "::/1"];
  expect(problems({ "postern.toml": `[http]\ntrusted_proxies = ${JSON.stringify(ranges)}` })).toEqual([]);
});

const MIB = 1024 * 1024;
const budget = (bytes: number) => `[http]\nbody_budget_bytes = ${bytes}`;
const endpoint = (path: string, keys = "") =>
  `[[endpoints]]\npath = "${path}"\njob_id = 1\nauth = "none"\n${keys}\n`;

test.each([
  [MIB - 1, endpoint("/a"), `must be at least ${MIB}, the largest body of endpoint /a`],
  [
    2 * MIB,
    endpoint("/a") + endpoint("/b", `body_limit_bytes = ${3 * MIB}`),
    `must be at least ${3 * MIB}, the largest body of endpoint /b`,
  ],
  [
    2 * MIB - 1,
    endpoint("/a", 'encoded_bodies = "decode"'),
    `must be at least ${2 * MIB}, the largest body of endpoint /a, received and decoded`,
  ],
])("a budget of %i bytes that is too small for one body is refused", (bytes, webhooks, problem) => {
  expect(problems({ "postern.toml": budget(bytes), "webhooks.toml": webhooks })).toEqual([
    `postern.toml: http.body_budget_bytes: ${problem}`,
  ]);
});

test("a budget that is just large enough for the largest body is accepted", () => {
  const webhooks = endpoint("/a", `body_limit_bytes = ${MIB}\nencoded_bodies = "decode"`);
  expect(problems({ "postern.toml": budget(2 * MIB), "webhooks.toml": webhooks })).toEqual([]);
});

const REPORTS = '[runners.reports]\nurl = "http://127.0.0.1:1"\n';

test.each([
  ['[jobs."7"]', "jobs.7: must be <service id>/<job index>, such as 7/1"],
  [
    '[jobs."7/01"]',
    'jobs.7/01: must have a job index from 0 to 2^53-1, in decimal, without leading zeros, not "01"',
  ],
  [
    '[jobs."7/9007199254740992"]',
    'jobs.7/9007199254740992: must have a job index from 0 to 2^53-1, in decimal, without leading zeros, not "9007199254740992"',
  ],
  [
    `${REPORTS}[jobs."7/1"]\nrunner = "reports"\n[jobs."7/2"]\nrunner = "report"`,
    'jobs.7/2.runner: must be a configured runner, not "report"; did you mean reports?',
  ],
  [
    '[jobs."7/1"]\ntimeout_ms = 20000',
    "jobs.7/1.timeout_ms: must be below producer.lock_ms: an attempt must end before its lock expires",
  ],
  [
    `${REPORTS}timeout_ms = 20000\n[jobs."7/1"]\nrunner = "reports"`,
    "runners.reports.timeout_ms: must be below producer.lock_ms: an attempt must end before its lock expires",
  ],
  [
    '[jobs."7/1"]\nbackoff = { base_ms = 2, cap_ms = 1 }',
    "jobs.7/1.backoff.cap_ms: must be at least base_ms (2)",
  ],
  [
    '[jobs."7/1"]\nbackoff = { base_ms = 900001 }',
    "jobs.7/1.backoff.base_ms: must be at most cap_ms (900000)",
  ],
  [
    '[jobs."7/1"]\nrate = { per_second = 500, burst = 49 }',
    "jobs.7/1.rate.burst: must be at least 50, a tenth of per_second",
  ],
  [
    '[runners.default]\nurl = "http://127.0.0.1:1"',
    'runners.default: must not be "default", the name of [runner]',
  ],
  [`[runners.a]\n[jobs."1/1"]\nrunner = "a"`, "runners.a.url: must be an http or https URL"],
  [REPORTS, "runners.reports: is not used: no job has this runner"],
])("the mistake in %j is reported with its key and the problem", (toml, problem) => {
  expect(problems({ "postern.toml": toml })).toEqual([`postern.toml: ${problem}`]);
});

test("missing backoff keys of a job come from the producer, and its rate becomes a number of calls per period", () => {
  const toml = `
    [producer.backoff]
    cap_ms = 60000
    [jobs."7/1"]
    backoff = { base_ms = 5 }
    rate = { per_second = 50, burst = 100 }
    [jobs."7/2"]
    rate = { per_second = 0.1 }`;
  const jobs = toJobs(loadConfig(readWebhooks, { dir: dirWith({ "postern.toml": toml }), env: {} }).postern);
  expect(jobs.get("7/1")).toMatchObject({
    backoff: { baseMs: 5, capMs: 60_000 },
    rate: { max: 100, periodMs: 2000 },
  });
  expect(jobs.get("7/2")).toMatchObject({ backoff: undefined, rate: { max: 1, periodMs: 10_000 } });
});

const runner = (lines: string) => ({ "postern.toml": `[runner]\n${lines}` });
const loaded = (files: Files) => loadConfig(readWebhooks, { dir: dirWith(files), env: {} }).postern;

test("the runner uses the deployment's Redis, unless it has its own, which is strict by default", () => {
  const all = '[redis]\nurl = "redis://all"\ndurability = "relaxed"\n';
  const redisOf = (own: string) => toRunnerRedis(loaded({ "postern.toml": all + own }));
  expect(redisOf("")).toMatchObject({ durability: "relaxed" });
  expect(redisOf("").url?.reveal()).toBe("redis://all");
  const own = redisOf('[runner.redis]\nurl = "redis://own"');
  expect([own.url?.reveal(), own.durability]).toEqual(["redis://own", "strict"]);
});

test.each([
  ["redis = {}", "runner.redis.url: is missing"],
  ['redis = { url = "http://a" }', "runner.redis.url: must be a redis://, rediss:// or unix:// URL"],
  [
    'redis = { url = "redis://a", durability = "replicated", min_replicas = 2 }',
    'runner.redis.durability: must not be "replicated" with url: set sentinels or nodes',
  ],
  ['redis = { nodes = ["a:1"], durability = "replicated" }', "runner.redis.min_replicas: is missing"],
  [
    'redis = { nodes = ["a:1"], min_replicas = 2 }',
    'runner.redis.min_replicas: is not used: durability is not "replicated"',
  ],
  ["memory_secs = 10\nanswer_secs = 11", "runner.answer_secs: must be at most memory_secs"],
  [
    "result_bytes_max = 2\nanswers_bytes_max = 1",
    "runner.result_bytes_max: must be at most answers_bytes_max",
  ],
])("settings that the runner cannot meet are refused: %s", (lines, problem) => {
  expect(problems(runner(lines))).toEqual([expect.stringContaining(problem)]);
});

test("an answer is kept for a day, or for as long as its key is remembered if that is shorter", () => {
  expect(loaded({}).runner.answer_secs).toBe(86_400);
  expect(loaded(runner("memory_secs = 10")).runner.answer_secs).toBe(10);
});

/** Retries that come later find the compact form of a lost answer, which also says 2xx. */
test("by default an answer is kept for longer than a call is retried, even with the longest Retry-After", () => {
  const { producer, runner } = loaded({});
  const { judge } = createRetryPolicy({
    attempts: producer.attempts,
    backoff: { baseMs: producer.backoff.base_ms, capMs: producer.backoff.cap_ms },
    jobs: new Map(),
    random: () => 1,
  });
  const failure = new AppError("runner.failed", { reason: "503", retryAfterMs: 2 ** 40 });
  let tookMs = producer.attempts * runner.timeout_ms;
  for (let attempt = 1; attempt < producer.attempts; attempt++) {
    const verdict = judge(failure, attempt, "7/1");
    tookMs += verdict.kind === "retry" ? verdict.afterMs : Number.NaN;
  }
  expect(tookMs / 3_600_000).toBeCloseTo(19.06, 2);
  expect(tookMs).toBeLessThan(runner.answer_secs * 1000);
});
