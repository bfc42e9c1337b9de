import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { dirWith, placedProblemsOf } from "./files.ts";

const problemsOfUrl = (url: string) => {
  const toml = `[redis]\nurl = ${JSON.stringify(url)}\n[runner]\nredis.url = ${JSON.stringify(url)}\n`;
  return placedProblemsOf(() =>
    loadConfig(readWebhooks, { dir: dirWith({ "postern.toml": toml }), env: {} }),
  );
};

test.each([
  ["localhost:6379", "must be a redis://, rediss:// or unix:// URL"],
  ["http://localhost:6379", "must be a redis://, rediss:// or unix:// URL"],
  ["unix://redis.sock", "must have the path of a socket, such as unix:///run/redis.sock"],
  ["unix:///run/redis.sock?db=1", "must have the path of a socket, such as unix:///run/redis.sock"],
  ["redis://", "must have a host"],
  ["redis://:s3cret@", "must have a host"],
  ["redis://:s3cret@:6379", "must have a host"],
  ["redis:///0", "must have a host"],
  ["redis://:s3cret@host:63790000", "must have a port from 1 to 65535"],
  ["redis://:s3cret@host:6379a", "must have a port from 1 to 65535"],
  ["redis://host:0", "must have a port from 1 to 65535"],
  ["redis://:s3cret@ho st:6379", "must have a valid host"],
  ["redis://:s3cret@[::1:6379", "must have a valid host"],
  ["redis://:s3/cret@host:6379", "has a / before its last @: write it as %2F in a user or password"],
  ["redis://:s3#cret@host:6379", "has a # before its last @: write it as %23 in a user or password"],
  ["redis://default:s3?cret@host", "has a ? before its last @: write it as %3F in a user or password"],
  ["redis://:s3%cret@host", "has a % in its user or password that starts no escape: write % as %25"],
  ["redis://host:6379/first", "must have a number as its database, such as redis://127.0.0.1:6379/0"],
  [
    "redis://host:6379/0?keyPrefix=s3cret",
    "has an unknown parameter: only family=4 and family=6 are supported",
  ],
  ["redis://host:6379/0#s3cret", "must not have a fragment (#)"],
])("the URL of a Redis %s is refused with the reason, and without its password", (url, problem) => {
  const problems = problemsOfUrl(url);
  expect(problems).toEqual([
    `postern.toml:2: redis.url: ${problem}`,
    `postern.toml:4: runner.redis.url: ${problem}`,
  ]);
  expect(problems.join()).not.toMatch(/s3|cret/);
});

test.each([
  "redis://127.0.0.1:6379",
  "rediss://user:p%40ss%2Fword@redis.example.com:6380/15",
  "redis://:p@ss:word@host",
  "redis://[::1]:6379/0",
  "redis://host/1?family=6",
  "unix:///run/redis/redis.sock",
])("the URL of a Redis %s is accepted", (url) => {
  expect(problemsOfUrl(url)).toEqual([]);
});
