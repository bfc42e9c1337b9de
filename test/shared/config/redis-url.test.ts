import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/load-config.ts";
import { dirWith, placedProblemsOf } from "./files.ts";

const said = (url: string) => {
  const toml = `[redis]\nurl = ${JSON.stringify(url)}\n[runner]\nredis.url = ${JSON.stringify(url)}\n`;
  return placedProblemsOf(() => loadConfig({ dir: dirWith({ "postern.toml": toml }), env: {} }));
};

test.each([
  ["localhost:6379", "must be a redis:// or rediss:// URL"],
  ["http://localhost:6379", "must be a redis:// or rediss:// URL"],
  ["redis://", "names no host"],
  ["redis://:s3cret@", "names no host"],
  ["redis://:s3cret@:6379", "names no host"],
  ["redis:///0", "names no host"],
  ["redis://:s3cret@host:63790000", "has a port that is no number from 1 to 65535"],
  ["redis://:s3cret@host:6379a", "has a port that is no number from 1 to 65535"],
  ["redis://host:0", "has a port that is no number from 1 to 65535"],
  ["redis://:s3cret@ho st:6379", "has a host that is none"],
  ["redis://:s3cret@[::1:6379", "has a host that is none"],
  ["redis://:s3/cret@host:6379", "has a / before its last @: in a user or a password it is written %2F"],
  ["redis://:s3#cret@host:6379", "has a # before its last @: in a user or a password it is written %23"],
  ["redis://default:s3?cret@host", "has a ? before its last @: in a user or a password it is written %3F"],
  [
    "redis://:s3%cret@host",
    "has a % in its user or password that begins no escape: a % itself is written %25",
  ],
  ["redis://host:6379/first", "names a database that is no number, as redis://127.0.0.1:6379/0 does"],
  [
    "redis://host:6379/0?keyPrefix=s3cret",
    "has parameters after its ? of which only family=4 and family=6 are known",
  ],
  ["redis://host:6379/0#s3cret", "ends with a # and more, which no URL of a Redis has"],
])(
  "the URL of a Redis %s is refused with what is wrong with it, and without its password",
  (url, problem) => {
    const problems = said(url);
    expect(problems).toEqual([
      `postern.toml:2: redis.url: ${problem}`,
      `postern.toml:4: runner.redis.url: ${problem}`,
    ]);
    expect(problems.join()).not.toMatch(/s3|cret/);
  },
);

test.each([
  "redis://127.0.0.1:6379",
  "rediss://user:p%40ss%2Fword@redis.example.com:6380/15",
  "redis://:p@ss:word@host",
  "redis://[::1]:6379/0",
  "redis://host/1?family=6",
])("the URL of a Redis %s is taken", (url) => {
  expect(said(url)).toEqual([]);
});
