import { DEFAULT_NAME, prefixOf, runnerPrefixOf } from "./keys.ts";

/** Rights that a process needs from its Redis user, as words of ACL SETUSER without the signs `+`, `~` and `&`. */
type Rights = {
  readonly commands: readonly string[];
  readonly keys: readonly string[];
  readonly channels: readonly string[];
};

const words = (text: string): string[] => text.trim().split(/\s+/);

/** Commands that every process needs, mainly in its scripts. */
const BASE = words(`
  del eval evalsha get hdel hget hincrby hlen hmget hset info pexpire pttl set time zadd zrem zremrangebyscore`);
/** Commands of BullMQ's scripts and of our Lua around them. */
const QUEUE = words(`
  decrby exists getrange hexists hgetall hmset hstrlen incr incrby lindex llen lpush persist publish sadd smembers
  strlen xadd zcard zrange zrangebyscore zscore`);
const WEBHOOKS = [
  ...BASE,
  ...QUEUE,
  ...words(
    "hkeys lpop lrange lrem ltrim ping rpush scan sismember srem subscribe unlink zcount zrevrangebyscore",
  ),
];

/**
 * Keys of partition 0, which also has the data that belongs to no call. In these patterns, `{name}` is replaced by the prefix
 * of the deployment's keys, and `{runner}` by the prefix of its runners' keys.
 */
const CONTROL = ["{name}:*"];
/**
 * Keys and channels of all partitions. The keys of partition 0 begin with `{name}`, and those of any other partition with
 * `{name.` and its index.
 */
const ALL = {
  keys: [...CONTROL, "{name.*"],
  channels: ["{name}:changes", "{name}:events", "{name.*:changes"],
};

/** Rights of each process. The operator's console and the commands have the same rights. */
export const RIGHTS = {
  webhooks: { ...ALL, commands: WEBHOOKS },
  x402: { ...ALL, commands: [...WEBHOOKS, ...words("hsetnx lpos scard zpopmin zrevrange")] },
  producer: {
    ...ALL,
    commands: [
      ...BASE,
      ...QUEUE,
      ...words(`
        bzpopmin hkeys hsetnx lpos lrange lrem lset ltrim rpoplpush rpush scard sismember srem sscan unlink xrevrange xtrim zcount zpopmin
        zremrangebyrank zrevrange zrevrangebyscore`),
    ],
  },
  pricing: { keys: CONTROL, channels: [], commands: [...BASE, "hgetall"] },
  runner: {
    commands: [
      ...BASE,
      ...words(
        "decrby exists incrby persist strlen zcount zrange zrangebyscore zremrangebyrank zrevrange zrevrank zscore",
      ),
    ],
    keys: ["{runner}:*", ...CONTROL],
    channels: [],
  },
  operator: {
    ...ALL,
    commands: [
      ...BASE,
      ...QUEUE,
      ...words(`
        cluster|forget hkeys hsetnx lpos lrange lrem ltrim mget ping pubsub|numsub rpush scard sismember srem subscribe unlink xrevrange xtrim zcount
        zmscore zrevrange zrevrangebyscore`),
    ],
  },
} as const satisfies Record<string, Rights>;

export type RightsOf = keyof typeof RIGHTS;

/**
 * Commands that some configurations do not need. CONFIG GET is optional with durability "managed", SELECT in database 0, and
 * WAIT without durability "replicated". The CLUSTER commands are optional without `[redis] nodes`.
 */
const OPTIONAL_RIGHTS = words(
  "cluster|info cluster|keyslot cluster|nodes cluster|slots config|get select wait",
);

/** Returns the rights of a process in the deployment with this name, as rules of ACL SETUSER. */
export function aclRules(process: RightsOf, name = DEFAULT_NAME): string {
  const { commands, keys, channels }: Rights = RIGHTS[process];
  const named = (pattern: string): string =>
    pattern
      .replace("{name}", prefixOf(name))
      .replace("{name.", `{${name}.`)
      .replace("{runner}", runnerPrefixOf(name));
  return [
    ...["resetkeys", ...keys.map((pattern) => `~${named(pattern)}`)],
    ...["resetchannels", ...channels.map((channel) => `&${named(channel)}`)],
    ...["-@all", ...[...commands, ...OPTIONAL_RIGHTS].sort().map((command) => `+${command}`)],
  ].join(" ");
}
