import { X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { z } from "zod";
import { Secret } from "../platform/crypto/secret.ts";
import { messageOf } from "../platform/errors/app-error.ts";
import { between, type Rule, rule } from "./between-keys.ts";
import { eitherNotation } from "./fields.ts";
import { type Problem, problem } from "./problem.ts";
import { isSocketUrl, redisUrl } from "./redis-url.ts";
import { type SecretSource, secretValue } from "./secrets.ts";

const ADDRESS = /^(?:\[(?<ipv6>[0-9a-fA-F:.]+)\]|(?<host>[A-Za-z0-9_.-]+)):(?<port>\d{1,5})$/;

/** `host:port` of a server. An IPv6 address is in brackets. */
const serverAddress = z.string().transform((text, context) => {
  const { ipv6, host = ipv6, port } = ADDRESS.exec(text)?.groups ?? {};
  if (host !== undefined && Number(port) > 0 && Number(port) <= 65_535) return { host, port: Number(port) };
  context.addIssue('must be "host:port", such as "10.0.0.5:6379"');
  return z.NEVER;
});

const hostAndPort = z.string().refine((text) => ADDRESS.test(text), 'must be "host:port"');

const servers = z.array(serverAddress).min(1);

function pem(from: SecretSource) {
  const isPem = (text: Secret): boolean => text.reveal().includes("-----BEGIN ");
  return secretValue(from).refine(isPem, "must be PEM: write file:/path to read it from a file");
}

const tls = (from: SecretSource) =>
  z
    .strictObject({
      ca: pem(from).optional(),
      cert: pem(from).optional(),
      key: pem(from).optional(),
      server_name: z
        .string()
        .regex(/^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*$/, "must be a host name")
        .optional(),
    })
    .check(
      between(
        rule(({ cert, key }) => cert === undefined || key !== undefined, {
          path: ["key"],
          message: "is missing: cert needs its key",
        }),
        rule(({ cert, key }) => key === undefined || cert !== undefined, {
          path: ["cert"],
          message: "is missing: key needs its certificate",
        }),
        certificateProblems,
      ),
    )
    // A certificate is not secret. It becomes plain text here, so that different certificates give different
    // configuration hashes: `configHash` leaves out secrets (fingerprint.ts).
    .transform(({ ca, cert, key, server_name: serverName }) => ({
      ca: ca?.reveal(),
      cert: cert?.reveal(),
      key,
      serverName,
    }));

type Pems = { ca?: Secret | undefined; cert?: Secret | undefined; key?: Secret | undefined };

function certificateProblems({ ca, cert, key }: Pems): Problem[] {
  const problems: Problem[] = [];
  const attempt = (name: keyof Pems, use: () => unknown): void => {
    try {
      use();
    } catch (error) {
      problems.push(problem(name, `cannot be used: ${messageOf(error)}`));
    }
  };
  if (ca) attempt("ca", () => new X509Certificate(ca.reveal()));
  if (cert && key) attempt("cert", () => createSecureContext({ cert: cert.reveal(), key: key.reveal() }));
  return problems;
}

/** Limit on `min_replicas`. It only catches typing mistakes. */
const REPLICAS_MAX = 20;

const durability = {
  durability: z.enum(["strict", "replicated", "managed", "relaxed"]).default("strict"),
  min_replicas: z.int().min(1).max(REPLICAS_MAX).optional(),
};

const masterName = z
  .string()
  .regex(/^[A-Za-z0-9._-]+$/, "must be letters, digits, dots, hyphens and underscores");

/** Keys of a Redis: its address, its login, and its required durability. */
const keys = (from: SecretSource) => ({
  url: redisUrl(from).optional(),
  sentinels: servers.optional(),
  master_name: masterName.optional(),
  nodes: servers.optional(),
  username: z.string().min(1).optional(),
  password: secretValue(from).optional(),
  tls: tls(from).optional(),
  sentinel_username: z.string().min(1).optional(),
  sentinel_password: secretValue(from).optional(),
  sentinel_tls: tls(from).optional(),
  nat_map: z.record(hostAndPort, serverAddress).optional(),
  ...durability,
});

export type RedisTable = z.output<z.ZodObject<ReturnType<typeof keys>>>;

const SENTINEL_KEYS = ["master_name", "sentinel_username", "sentinel_password", "sentinel_tls"] as const;

type Partitions = number | PartitionPlace[];
/** `[redis]`, or `[runner.redis]`, which has no partitions. */
type AnyTable = RedisTable & { partitions?: Partitions };

/**
 * Checks the addresses of Redis and of its partitions. If each partition has its own server, these
 * servers hold all data, and `url`, `nodes` and `master_name` are not used.
 */
const PLACE_RULE: Rule<AnyTable> = ({ partitions, url, sentinels, nodes, master_name }) => {
  const isSplit = Array.isArray(partitions);
  const given = Object.entries({ url, sentinels, nodes }).filter(([, value]) => value !== undefined);
  const beside = isSplit ? Object.entries({ url, nodes, master_name }) : [];
  return [
    ...given.slice(1).map(([name]) => problem(name, `is not used: ${given[0]?.[0]} is set`)),
    ...beside
      .filter(([, value]) => value !== undefined)
      .map(([name]) => problem(name, "is not used: each of partitions has its own")),
    ...(sentinels !== undefined && !isSplit && master_name === undefined
      ? [problem("master_name", NO_MASTER)]
      : []),
    ...(isSplit ? partitions.flatMap((place, at) => placeProblems(place, at, sentinels !== undefined)) : []),
    ...(isSplit ? sharedPlaces(partitions) : []),
  ];
};

/** Reports partitions with the same address or master name, because they would be the same partition. */
function sharedPlaces(partitions: readonly PartitionPlace[]): Problem[] {
  const texts = partitions.map(({ url, master_name }) => url?.reveal() ?? master_name);
  return texts.flatMap((text, at) => {
    const first = texts.indexOf(text);
    if (text === undefined || first === at) return [];
    return [problem(["partitions", at], `has the place of redis.partitions[${first}]`)];
  });
}

const NO_MASTER = "is missing: it is the name of the master that the sentinels watch";

type PartitionPlace = Pick<RedisTable, "url" | "master_name">;

function placeProblems({ url, master_name }: PartitionPlace, at: number, bySentinels: boolean): Problem[] {
  const of = (name: string, message: string) => problem(["partitions", at, name], message);
  if (bySentinels)
    return [
      ...(url === undefined ? [] : [of("url", "is not used: sentinels is set")]),
      ...(master_name === undefined ? [of("master_name", NO_MASTER)] : []),
    ];
  return [
    ...(url === undefined ? [of("url", "is missing")] : []),
    ...(master_name === undefined ? [] : [of("master_name", "is not used: sentinels is not set")]),
  ];
}

const UNUSED: Rule<RedisTable> = (table) => {
  const { sentinels, nodes, nat_map } = table;
  const ofSentinels = SENTINEL_KEYS.filter((name) => sentinels === undefined && table[name] !== undefined);
  return [
    ...ofSentinels.map((name) => problem(name, "is not used: sentinels is not set")),
    ...(nat_map !== undefined && sentinels === undefined && nodes === undefined
      ? [problem("nat_map", "is not used: neither sentinels nor nodes is set")]
      : []),
  ];
};

const LOGIN: Rule<AnyTable> = ({ url, username, password, tls: settings, partitions }) => {
  const urls = Array.isArray(partitions) ? partitions.map((place) => place.url) : [url];
  const texts = urls.flatMap((each) => each?.reveal() ?? []);
  const hasLogin = texts.some((text) => !isSocketUrl(text) && /^[^/]*\/\/[^/]*@/.test(text));
  const unused = Object.entries({ username, password }).filter(
    ([, value]) => hasLogin && value !== undefined,
  );
  return [
    ...unused.map(([name]) => problem(name, "is not used: url has a user or a password")),
    ...(settings !== undefined && texts.some((text) => !text.startsWith("rediss:"))
      ? [problem("tls", "is not used: url does not begin with rediss://")]
      : []),
  ];
};

const rules = between<AnyTable>(
  PLACE_RULE,
  UNUSED,
  LOGIN,
  rule(({ username, password }) => username === undefined || password !== undefined, {
    path: ["password"],
    message: "is missing: username needs one",
  }),
  rule(
    ({ sentinel_username: name, sentinel_password: password }) =>
      name === undefined || password !== undefined,
    {
      path: ["sentinel_password"],
      message: "is missing: sentinel_username needs one",
    },
  ),
  rule(({ durability: mode, min_replicas: min }) => mode !== "replicated" || min !== undefined, {
    path: ["min_replicas"],
    message:
      'is missing: durability = "replicated" needs the number of replicas below which no call is accepted',
  }),
  rule(({ durability: mode, min_replicas: min }) => mode === "replicated" || min === undefined, {
    path: ["min_replicas"],
    message: 'is not used: durability is not "replicated"',
  }),
  rule(
    ({ durability: mode, sentinels, nodes }) => mode !== "replicated" || (sentinels ?? nodes) !== undefined,
    {
      path: ["durability"],
      message:
        'must not be "replicated" with url: set sentinels or nodes, which list the replicas that can take over',
    },
  ),
);

/** Form of a deployment's id: a day and a name. */
export const DEPLOYMENT_ID = /^\d{4}-\d{2}-\d{2}-[a-z0-9-]{1,40}$/;

const deploymentId = z
  .string()
  .regex(
    DEPLOYMENT_ID,
    'must be a day and a name of lower-case letters, digits and hyphens, such as "2026-11-07-shop"',
  )
  .refine(
    (text) => !Number.isNaN(Date.parse(text.slice(0, 10))),
    "must begin with a day, such as 2026-11-07",
  );

const stateFile = z.string().startsWith("/", "must be an absolute path");

const name = z
  .string()
  .regex(/^[a-z0-9-]{1,40}$/, "must be 1 to 40 lower-case letters, digits and hyphens")
  .refine((text) => !text.endsWith("-runner"), "must not end with -runner: the prefix of runners' keys does");

/** Maximum number of partitions: up to this number, call ids are spread evenly (shared/redis/partition.ts). */
const PARTITIONS_MAX = 64;

/** The number of partitions on one server or Cluster, or the place of each partition if each has its own server. */
function partitions(from: SecretSource) {
  const place = z.strictObject({ url: redisUrl(from).optional(), master_name: masterName.optional() });
  const places = z.array(place).min(2, "must list at least two").max(PARTITIONS_MAX);
  return eitherNotation(Array.isArray, places, z.int().min(1).max(PARTITIONS_MAX));
}

/** `[redis]`. Without an address, the Redis on this machine is used. */
export const redis = (from: SecretSource) =>
  z
    .strictObject({
      name: name.default("postern"),
      deployment_id: deploymentId.optional(),
      state_file: stateFile.optional(),
      partitions: partitions(from).default(1),
      ...keys(from),
    })
    .check(
      rules,
      between(
        rule(({ partitions: number, deployment_id: id }) => number === 1 || id !== undefined, {
          path: ["deployment_id"],
          message: "is missing: with several partitions, it tells a new one from one that has lost its data",
        }),
      ),
    )
    .transform(({ url, ...rest }) => ({
      ...rest,
      url:
        url ??
        (rest.sentinels || rest.nodes || Array.isArray(rest.partitions)
          ? undefined
          : new Secret("redis://127.0.0.1:6379")),
    }));

export type RedisToml = z.output<ReturnType<typeof redis>>;

/** `[runner.redis]` */
export const runnerRedis = (from: SecretSource) =>
  z.strictObject(keys(from)).check(
    rules,
    between(
      rule(({ url, sentinels, nodes }) => (url ?? sentinels ?? nodes) !== undefined, {
        path: ["url"],
        message: "is missing: set url, sentinels or nodes",
      }),
    ),
  );

/**
 * Returns the connection options for the Redis of a table (shared/redis/connect.ts). All Redis keys that the
 * connection uses begin with `prefix`.
 */
export function toRedisTarget(table: RedisTable, prefix: string) {
  const {
    url,
    sentinels,
    master_name: masterName = "",
    nodes = [],
    username,
    password,
    nat_map: natMap,
  } = table;
  const login = { username, password, tls: table.tls };
  if (url !== undefined) return { ...login, url };
  const sentinelLogin = {
    username: table.sentinel_username,
    password: table.sentinel_password,
    tls: table.sentinel_tls,
  };
  const finder =
    sentinels === undefined
      ? ({ kind: "nodes", servers: nodes, key: prefix } as const)
      : ({ kind: "sentinels", servers: sentinels, masterName, login: sentinelLogin } as const);
  const { min_replicas: minReplicas } = table;
  const confirmed = minReplicas === undefined ? undefined : { minReplicas, prefix };
  return { ...login, natMap, finder, confirmed };
}

/**
 * After a failover, a replica is the new master, and it may lack the newest writes. This is the maximum age of such
 * lost writes, including their time to reach a replica.
 */
const FAILOVER_LOSS_MS = 60_000;

/** Returns the options for checking that a partition has this deployment's data (shared/redis/deployment.ts). */
export function toDeploymentOptions(table: RedisToml, partition: number) {
  const { deployment_id: id, state_file: file, durability: mode, sentinels, nodes } = table;
  const lossMs = sentinels === undefined && nodes === undefined ? 0 : FAILOVER_LOSS_MS;
  const stateFile = file === undefined || partition === 0 ? file : `${file}.${partition}`;
  return { id, stateFile, acceptsLoss: mode === "relaxed", lossMs };
}

/**
 * Returns one table for each server or Cluster, and the number of partitions that share it. If each partition has its
 * own server, that number is 1.
 */
export function partitionTables({ partitions: written, ...table }: RedisToml) {
  const tables = Array.isArray(written) ? written.map((place) => ({ ...table, ...place })) : [table];
  return { tables, sharing: Array.isArray(written) ? 1 : written };
}

/** Returns the number of partitions. */
export function partitionCountOf(redis: RedisToml): number {
  const { tables, sharing } = partitionTables(redis);
  return tables.length * sharing;
}

/** Returns the table of the Redis with partition 0. */
export function toControlTable(redis: RedisToml): RedisTable {
  return partitionTables(redis).tables[0] as RedisTable;
}

/** Returns the durability that this table requires of its Redis (shared/redis/server-state.ts). */
export function toDurability({ durability: mode }: Pick<RedisTable, "durability">) {
  return { mode };
}
