import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { toRunnerRedis } from "../../../shared/config/postern-toml.ts";
import { readPostern } from "../../../shared/config/read-postern.ts";
import { partitionTables, toRedisTarget } from "../../../shared/config/redis-toml.ts";
import { PREFIX, prefixOf } from "../../../shared/redis/keys.ts";
import { TEST_TLS } from "../../support/tls.ts";
import { dirWith, placedProblemsOf } from "./files.ts";

const ENV = { CERT: TEST_TLS.cert, KEY: TEST_TLS.key };
const load = (lines: string, table = "redis") =>
  loadConfig(readPostern, { dir: dirWith({ "postern.toml": `[${table}]\n${lines}` }), env: ENV }).postern;
const problems = (lines: string, table?: string) =>
  placedProblemsOf(() => load(lines, table)).map((line) => line.replace(/^postern\.toml:\d+: /, ""));

const SENTINELS = 'sentinels = ["10.0.0.1:26379", "[::1]:26380"]\nmaster_name = "mymaster"\n';
const NODES = 'nodes = ["redis-0.redis:6379"]\n';

test("by default Redis is on this machine and has the default prefix", () => {
  const { redis } = load("");
  expect(redis.url?.reveal()).toBe("redis://127.0.0.1:6379");
  expect(prefixOf(redis.name)).toBe(PREFIX);
});

test("sentinels and nodes are read with their logins, TLS and NAT", () => {
  const more = 'username = "app"\npassword = "of-these-servers"\ntls = { ca = "env:CERT" }\n';
  const ofSentinels =
    'sentinel_password = "of-the-sentinels"\nsentinel_tls = { cert = "env:CERT", key = "env:KEY", server_name = "a.test" }\n';
  const nat = 'nat_map = { "10.0.0.9:6379" = "redis.test:7001" }\n';
  const { redis } = load(SENTINELS + more + ofSentinels + nat);
  expect(toRedisTarget(redis, "{a}")).toMatchObject({
    ...{
      username: "app",
      tls: { ca: TEST_TLS.cert },
      natMap: { "10.0.0.9:6379": { host: "redis.test", port: 7001 } },
    },
    finder: {
      ...{ kind: "sentinels", masterName: "mymaster" },
      servers: [
        { host: "10.0.0.1", port: 26379 },
        { host: "::1", port: 26380 },
      ],
      login: { username: undefined, tls: { cert: TEST_TLS.cert, serverName: "a.test" } },
    },
  });
  expect(toRedisTarget(load(NODES).redis, "{a}")).toMatchObject({
    finder: { kind: "nodes", servers: [{ host: "redis-0.redis", port: 6379 }], key: "{a}" },
  });
  expect(toRunnerRedis(load(NODES, "runner.redis")).nodes).toHaveLength(1);
});

const ID = 'deployment_id = "2026-11-07-shop"\n';

test("partitions share the Redis of the table, or have servers of their own", () => {
  const placesOf = (lines: string) => {
    const { tables, sharing } = partitionTables(load(ID + lines).redis);
    return [sharing, ...tables.map(({ url, master_name }) => url?.reveal() ?? master_name)];
  };
  expect(placesOf("")).toEqual([1, "redis://127.0.0.1:6379"]);
  expect(placesOf('url = "redis://a"\npartitions = 64')).toEqual([64, "redis://a"]);
  expect(placesOf(`${NODES}partitions = 4`)).toEqual([4, undefined]);
  const urls = '[[redis.partitions]]\nurl = "redis://a"\n[[redis.partitions]]\nurl = "redis://b"';
  expect(placesOf(urls)).toEqual([1, "redis://a", "redis://b"]);
  const masters = 'sentinels = ["a:26379"]\npartitions = [{ master_name = "m" }, { master_name = "n" }]';
  expect(placesOf(masters)).toEqual([1, "m", "n"]);
});

test.each([
  ["0", "redis.partitions: must be at least 1, not 0"],
  ["65", "redis.partitions: must be at most 64, not 65"],
  ['[{ url = "redis://a" }]', "redis.partitions: must list at least two"],
  ['[{ url = "redis://a" }, {}]', "redis.partitions[1].url: is missing"],
  [
    '[{ url = "redis://a" }, { url = "redis://a" }]',
    "redis.partitions[1]: has the place of redis.partitions[0]",
  ],
  [
    '[{ url = "redis://a" }, { url = "redis://b", master_name = "m" }]',
    "redis.partitions[1].master_name: is not used: sentinels is not set",
  ],
  [
    '[{ url = "redis://a" }, { url = "redis://b" }]\nurl = "redis://c"',
    "redis.url: is not used: each of partitions has its own",
  ],
  [
    '[{ url = "redis://a" }, { url = "redis://u:p@b" }]\npassword = "a-long-password!"',
    "redis.password: is not used: url has a user or a password",
  ],
])("impossible partitions are refused: %s", (written, problem) => {
  expect(problems(`${ID}partitions = ${written}`)).toEqual([problem]);
});

test("a deployment with partitions needs an id", () => {
  expect(problems("partitions = 2")).toEqual([
    "redis.deployment_id: is missing: with several partitions, it tells a new one from one that has lost its data",
  ]);
});

test.each([
  ['url = "redis://a"\nnodes = ["b:6379"]', "redis.nodes: is not used: url is set"],
  [SENTINELS + NODES, "redis.nodes: is not used: sentinels is set"],
  [
    'sentinels = ["a:26379"]',
    "redis.master_name: is missing: it is the name of the master that the sentinels watch",
  ],
  [`${NODES}master_name = "m"`, "redis.master_name: is not used: sentinels is not set"],
  [`${NODES}sentinel_tls = {}`, "redis.sentinel_tls: is not used: sentinels is not set"],
  ['nat_map = { "a:1" = "b:2" }', "redis.nat_map: is not used: neither sentinels nor nodes is set"],
  ['nodes = ["redis://a:6379"]', 'redis.nodes[0]: must be "host:port", such as "10.0.0.5:6379"'],
  ['nodes = ["a:0"]', 'redis.nodes[0]: must be "host:port", such as "10.0.0.5:6379"'],
  [`${NODES}username = "app"`, "redis.password: is missing: username needs one"],
  [
    'url = "redis://:secret@a"\npassword = "a-long-password!"',
    "redis.password: is not used: url has a user or a password",
  ],
  ['url = "redis://a"\ntls = {}', "redis.tls: is not used: url does not begin with rediss://"],
  ['url = "unix:///redis.sock"\ntls = {}', "redis.tls: is not used: url does not begin with rediss://"],
  [`${NODES}tls = { cert = "env:CERT" }`, "redis.tls.key: is missing: cert needs its key"],
  [`${NODES}tls = { key = "env:KEY" }`, "redis.tls.cert: is missing: key needs its certificate"],
  [
    `${NODES}tls = { ca = "/etc/ca.pem" }`,
    "redis.tls.ca: must be PEM: write file:/path to read it from a file",
  ],
  [`${NODES}tls = { ca = "env:CERT", server_name = "a b" }`, "redis.tls.server_name: must be a host name"],
  ['name = "Shop"', "redis.name: must be 1 to 40 lower-case letters, digits and hyphens"],
  ['name = "shop-runner"', "redis.name: must not end with -runner: the prefix of runners' keys does"],
])("an impossible Redis table is refused: %s", (lines, problem) => {
  expect(problems(lines)).toEqual([problem]);
});

test("an invalid certificate is reported with the reason, and a runner's own Redis needs an address and has no name", () => {
  const broken = "-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----";
  expect(problems(`${NODES}tls = { ca = "${broken}" }`)).toEqual([
    expect.stringMatching(/^redis\.tls\.ca: cannot be used: /),
  ]);
  expect(problems("", "runner.redis")).toEqual(["runner.redis.url: is missing: set url, sentinels or nodes"]);
  expect(problems('url = "redis://a"\nname = "b"', "runner.redis")).toEqual([
    expect.stringMatching(/^runner\.redis\.name: unknown key/),
  ]);
});
