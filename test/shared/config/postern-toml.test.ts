import { expect, test } from "vitest";
import { toJobs } from "../../../shared/config/jobs-toml.ts";
import { loadConfig } from "../../../shared/config/load-config.ts";
import { dirWith, type Files, problemsOf } from "./files.ts";

const problems = (files: Files) => problemsOf(() => loadConfig({ dir: dirWith(files), env: {} }));

test("a forwarded_header that no proxy may set is refused", () => {
  expect(problems({ "postern.toml": '[http]\nforwarded_header = "Forwarded"' })).toEqual([
    "postern.toml: http.forwarded_header: is not used: trusted_proxies names no proxy",
  ]);
});

test("a forwarded_header is X-Forwarded-For, if nothing else is said", () => {
  const http = (lines: string) =>
    loadConfig({
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
])("proxies that are everybody together are refused: %s", (...ranges) => {
  const toml = `[http]\ntrusted_proxies = ${JSON.stringify(ranges)}`;
  expect(problems({ "postern.toml": toml })).toEqual([
    expect.stringContaining("postern.toml: http.trusted_proxies: trust everybody together"),
  ]);
});

test("many proxies may be trusted that are not everybody", () => {
  const ranges = ["0.0.0.0/1", "128.0.0.0/2", "0.0.0.0/1", "64.0.0.0/2", "::/1"];
  expect(problems({ "postern.toml": `[http]\ntrusted_proxies = ${JSON.stringify(ranges)}` })).toEqual([]);
});

const MIB = 1024 * 1024;
const budget = (bytes: number) => `[http]\nbody_budget_bytes = ${bytes}`;
const endpoint = (path: string, keys = "") =>
  `[[endpoints]]\npath = "${path}"\njob_id = 1\nauth = "none"\n${keys}\n`;

test.each([
  [MIB - 1, endpoint("/a"), `is below ${MIB}, which one body of endpoints[0] (/a) may take`],
  [
    2 * MIB,
    endpoint("/a") + endpoint("/b", `body_limit_bytes = ${3 * MIB}`),
    `is below ${3 * MIB}, which one body of endpoints[1] (/b) may take`,
  ],
  [
    2 * MIB - 1,
    endpoint("/a", 'encoded_bodies = "decode"'),
    `is below ${2 * MIB}, which one body of endpoints[0] (/a), received and decoded, may take`,
  ],
])("a budget of %i bytes that is too small for one body is refused", (bytes, webhooks, problem) => {
  expect(problems({ "postern.toml": budget(bytes), "webhooks.toml": webhooks })).toEqual([
    `postern.toml: http.body_budget_bytes: ${problem}`,
  ]);
});

test("a budget that the largest body just fits is taken", () => {
  const webhooks = endpoint("/a", `body_limit_bytes = ${MIB}\nencoded_bodies = "decode"`);
  expect(problems({ "postern.toml": budget(2 * MIB), "webhooks.toml": webhooks })).toEqual([]);
});

const REPORTS = '[runners.reports]\nurl = "http://127.0.0.1:1"\n';

test.each([
  ['[jobs."7"]', "jobs.7: is not <service id>/<job index>, as 7/1"],
  ['[jobs."7/01"]', 'jobs.7/01: "01" is not a job index: 0 to 2^53-1, in decimal, without leading zeros'],
  [
    '[jobs."7/9007199254740992"]',
    'jobs.7/9007199254740992: "9007199254740992" is not a job index: 0 to 2^53-1, in decimal, without leading zeros',
  ],
  [
    `${REPORTS}[jobs."7/1"]\nrunner = "reports"\n[jobs."7/2"]\nrunner = "report"`,
    'jobs.7/2.runner: names a runner that is not there: "report"; did you mean reports?',
  ],
  [
    '[jobs."7/1"]\ntimeout_ms = 20000',
    "jobs.7/1.timeout_ms: must be shorter than producer.lock_ms: an injection has to end inside its lock",
  ],
  [
    `${REPORTS}timeout_ms = 20000\n[jobs."7/1"]\nrunner = "reports"`,
    "runners.reports.timeout_ms: must be shorter than producer.lock_ms: an injection has to end inside its lock",
  ],
  ['[jobs."7/1"]\nbackoff = { base_ms = 2, cap_ms = 1 }', "jobs.7/1.backoff.cap_ms: is below base_ms, 2"],
  ['[jobs."7/1"]\nbackoff = { base_ms = 900001 }', "jobs.7/1.backoff.base_ms: is above cap_ms, 900000"],
  [
    '[jobs."7/1"]\nrate = { per_second = 500, burst = 49 }',
    "jobs.7/1.rate.burst: is below 50, a tenth of per_second",
  ],
  ['[runners.default]\nurl = "http://127.0.0.1:1"', "runners.default: is the name of [runner] itself"],
  ["[runners.a]", "runners.a.url: must be an http or https URL"],
  [REPORTS, "runners.reports: is not used: no job names it"],
])("the mistake in %j is named with its key, and with what is wrong", (toml, problem) => {
  expect(problems({ "postern.toml": toml })).toEqual([`postern.toml: ${problem}`]);
});

test("what a job does not say of its backoff is the producer's, and its rate is so many calls in a period", () => {
  const toml = `
    [producer.backoff]
    cap_ms = 60000
    [jobs."7/1"]
    backoff = { base_ms = 5 }
    rate = { per_second = 50, burst = 100 }
    [jobs."7/2"]
    rate = { per_second = 0.1 }`;
  const jobs = toJobs(loadConfig({ dir: dirWith({ "postern.toml": toml }), env: {} }).postern);
  expect(jobs.get("7/1")).toMatchObject({
    backoff: { baseMs: 5, capMs: 60_000 },
    rate: { max: 100, periodMs: 2000 },
  });
  expect(jobs.get("7/2")).toMatchObject({ backoff: undefined, rate: { max: 1, periodMs: 10_000 } });
});
