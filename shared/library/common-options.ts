import { unsignedCallbacks } from "../config/callbacks-toml.ts";
import { type PosternToml, posternToml } from "../config/postern-toml.ts";
import type { ForwardedHeader } from "../http/client-address.ts";
import type { Logger } from "../log/logger.ts";
import type { DurabilityMode } from "../redis/server-state.ts";
import { type OptionCheck, tableOf } from "./option-check.ts";
import { type Need, type RedisOption, redisProblem } from "./redis-option.ts";

/** What every part takes. Each option follows the rule of the key of `postern.toml` that has its name. */
export type CommonOptions = {
  /**
   * A `redis://` or `rediss://` URL, also as `env:NAME` or `file:/path`: the part connects as it needs, and closes the connection in
   * `close()`. Or a connection of ioredis 6 of your own, which stays yours: it is refused if its settings break a promise.
   */
  redis: RedisOption;
  /** Takes each event with its fields. Without it the part is silent. `console` is one. */
  log?: Logger;
  console?: ConsoleOptions;
};

/** What is kept for whoever operates the deployment, and no call needs. */
export type ConsoleOptions = {
  /** Whether the part tells Redis every ten seconds that it runs, and what it has counted. It does by default. */
  report?: boolean;
};

/** What a gateway has in common with the other. */
export type GatewayOptions = CommonOptions & {
  /** Begins the names of the headers with which the runner is told of a call. `X-PLATFORM` by default. */
  metadataPrefix?: string;
  /** With `strict`, the default, calls are taken only while Redis' settings keep what a 202 promises. */
  durability?: DurabilityMode;
  /**
   * What the service that runs Redis promises, in your words, if it hides `appendfsync` and `no-appendfsync-on-rewrite`: by this you
   * declare that they are `always` and `no`. Where Redis shows them, they decide.
   */
  declared?: string;
  /** Above these a gateway answers 503 `queue.overloaded`. */
  limits?: {
    /** Calls that wait in all queues of this kind. 1,000,000 by default. */
    queueDepthMax?: number;
    /** Bytes of all calls in Redis. 4 GiB by default. */
    queueBytesMax?: number;
    /** Seconds that the oldest call has waited. No limit by default. */
    oldestAgeSecsMax?: number;
    /** Part of Redis' `maxmemory` that is in use, above 0 and at most 1. 0.85 by default. */
    redisMemoryRatioMax?: number;
    /** Receivers of callbacks that requests to one endpoint, or of one payer, may name by wildcards of `callbackHosts`. 100 by default. */
    callbackReceiversMax?: number;
    /** Milliseconds for which a write is tried before its outcome counts as unknown. 5000 by default. */
    enqueueTimeoutMs?: number;
  };
  http?: HttpOptions;
  results?: ResultOptions;
  /**
   * The path under which your server has the gateway, as `/postern`, if your server leaves it in `req.url`: Fastify and plain
   * `node:http` do, Express takes it away itself. Paths without it are answered 404.
   */
  mountPath?: string;
};

/** Who may ask for what the runner answered, wait for it, or watch calls. */
export type ResultOptions = {
  /**
   * Makes the tokens by which results are asked for: the same at every gateway, or `env:NAME` or `file:/path`. Of several the first makes
   * tokens, and each is good. A webhooks gateway needs it if an endpoint has `keepResult`.
   */
  secret?: string | readonly string[];
  /** Seconds that a client may wait for a result, whatever it prefers. 30 by default; with 0 nobody waits. */
  waitSecsMax?: number;
  /** Clients that may wait at a time, and at most half of `http.connections`. 10,000 by default. */
  waitersMax?: number;
  /** Streams that watch calls at a time, and at most a quarter of `http.connections`. 1000 by default; with 0 nobody may watch. */
  streamsMax?: number;
  /** How many of them watch one call. 16 by default. */
  streamsPerCallMax?: number;
};

export type HttpOptions = {
  /** Addresses and CIDR ranges of the proxies that are believed for whom they ask. None by default. */
  trustedProxies?: readonly string[];
  /** The one header in which they say so. `X-Forwarded-For` by default. */
  forwardedHeader?: ForwardedHeader;
  /** Bytes that the bodies in flight may take together. 256 MiB by default. */
  bodyBudgetBytes?: number;
  /** Connections that `listen()` keeps open at most. 4096 by default. */
  connections?: number;
  /** Seconds that `listen()` leaves a connection open between requests. 250 by default. */
  keepAliveSecs?: number;
};

/** @internal The names of the options that `readCommon` reads. */
export const COMMON = [
  "redis",
  "durability",
  "declared",
  "log",
  "console",
  "metadataPrefix",
  "limits",
  "http",
  "results",
  "mountPath",
] as const;

type More = {
  /** Tables that only this part has. */
  tables?: Readonly<Record<string, unknown>>;
  /** Where the options are that became a key of them. */
  placeOf?: (path: Path) => Path;
};

type Path = readonly PropertyKey[];

/** @internal The options of `postern.toml`, with its defaults. Rules between tables know them as `postern`. */
export function readCommon(
  check: OptionCheck,
  options: Partial<GatewayOptions>,
  need: Need,
  { tables = {}, placeOf = (path) => path }: More = {},
): PosternToml | undefined {
  const { redis, durability, declared, mountPath, log } = options;
  const problem = redisProblem(redis, need);
  if (problem !== undefined) check.reportOption("redis", problem);
  if (mountPath !== undefined && !isMountPath(mountPath))
    check.reportOption("mountPath", 'must be a path without a slash at its end, as "/postern"');
  if (log !== undefined && !isLogger(log))
    check.reportOption("log", "must have the functions info, warn and error");
  const redisTable = {
    ...(typeof redis === "string" && { url: redis }),
    ...(durability !== undefined && { durability }),
    ...(declared !== undefined && { declared }),
  };
  return check.read({
    name: "postern",
    schema: posternToml({ env: check.env }),
    table: { ...tables, redis: redisTable, ...inFile(options) },
    problemsIn: unsignedCallbacks,
    placeOf: (path) =>
      path[0] === "redis" ? [path[1] === "url" ? "redis" : (path[1] as string)] : placeOf(path),
  });
}

/** Those that are keys of the file under their own names. */
function inFile(options: Partial<GatewayOptions>): Record<string, unknown> {
  const { metadataPrefix, limits, http, results, console } = options;
  return tableOf({ metadataPrefix, limits, http, results, console });
}

function isMountPath(path: unknown): boolean {
  return typeof path === "string" && /^(?:\/[^/?#\s]+)+$/.test(path);
}

function isLogger(log: unknown): boolean {
  if (typeof log !== "object" || log === null) return false;
  return ["info", "warn", "error"].every(
    (name) => typeof (log as Record<string, unknown>)[name] === "function",
  );
}
