import { z } from "zod";
import type { PosternToml } from "../../shared/config/postern-toml.ts";
import { secretWarnings } from "../../shared/config/secret-warnings.ts";
import { type CommonOptions, type GatewayOptions, readCommon } from "../../shared/library/common-options.ts";
import { checkOptions, tableOf } from "../../shared/library/option-check.ts";
import { toOptionWarning } from "../../shared/library/option-names.ts";
import type { DurabilityMode } from "../../shared/redis/server-state.ts";
import type { Router } from "./router.ts";

/** The options of `createRunner`: the keys of `[runner]` in `postern.toml` in camelCase, and those below that it has not. */
export type RunnerOptions = CommonOptions & {
  /** From `createRouter()`. */
  jobs: Router;
  /** Any of them may have signed a request: text, `env:NAME` or `file:/path`. Without secrets, requests need no signature. */
  secrets?: readonly string[];
  /** As that of the gateways. `X-PLATFORM` by default. */
  metadataPrefix?: string;
  /** With `strict`, the default, calls are taken only while Redis' settings keep what is remembered. */
  durability?: DurabilityMode;
  /** As that of a gateway. */
  declared?: string;
  /** Seconds for which a key is remembered, with the status and the digest of its first answer. 2,592,000 (30 days) by default. */
  memorySecs?: number;
  /** Seconds for which the first answer is kept whole, if there is room, and its call listed. 86,400 (a day) by default. */
  answerSecs?: number;
  /** Bytes; a larger answer is not kept whole. 256 KiB by default. */
  resultBytesMax?: number;
  /** Bytes that all answers together may take that are kept whole; the oldest give way. 256 MiB by default. */
  answersBytesMax?: number;
  limits?: {
    /** Of the gateways on this Redis, so that answers give way first. 0.85 by default. */
    redisMemoryRatioMax?: number;
  };
  /** Milliseconds that a call stays with a runner that no longer renews its lease. 30,000 by default. */
  leaseMs?: number;
  /** Requests that are taken at once, and long calls that run at once beside them. 100 by default. */
  concurrency?: number;
  /** 64 MiB by default. */
  bodyBytesMax?: number;
  /** How often a long call is run before it is FAILED and waits for an operator. 20 by default. */
  longAttempts?: number;
  /** Milliseconds between its runs: up to `baseMs` (1000), twice that after each, at most `capMs` (900,000). */
  longBackoff?: { baseMs?: number; capMs?: number };
  /**
   * URLs of the private (ops) addresses of gateways with `deliveries = true`, to which the results of long calls are delivered, signed with
   * the first secret. They are tried in turn. Without it nobody is told what long jobs answer.
   */
  deliverTo?: readonly string[];
  /** As that of a gateway. */
  mountPath?: string;
};

type Read = { postern: PosternToml; warnings: readonly string[] };

const NOT_RUNNER = [
  "jobs",
  "secrets",
  "metadataPrefix",
  "durability",
  "declared",
  "limits",
  "bodyBytesMax",
  "mountPath",
];
/** Keys of `[runner]` that say where a producer finds it. */
const NOT_HERE = ["url", "secret", "timeoutMs", "bindAddress"] as const;

/** @internal The options as a checked configuration. Throws `start.config_invalid`. */
export function readRunnerOptions(options: RunnerOptions): Read {
  const check = checkOptions(options);
  const {
    jobs,
    secrets = [],
    bodyBytesMax,
    redis,
    log,
    console,
    metadataPrefix,
    durability,
    declared,
    limits,
    mountPath,
  } = options;
  if (typeof jobs?.job !== "function") check.reportOption("jobs", "must be what createRouter() makes");
  if (!Array.isArray(secrets)) check.reportOption("secrets", "must be an array");
  if (bodyBytesMax !== undefined)
    check.read({ schema: z.int().min(0), table: bodyBytesMax, placeOf: () => ["bodyBytesMax"] });
  for (const name of NOT_HERE) if (name in options) check.reportOption(name, "unknown option");
  const table = tableOf(options, [...NOT_RUNNER, ...NOT_HERE, "redis", "log", "console"]);
  const runner = { ...table, ...(Array.isArray(secrets) && secrets.length > 0 && { secret: secrets }) };
  const common = given({ redis, log, console, metadataPrefix, durability, declared, limits, mountPath });
  const placeOf = (path: readonly PropertyKey[]) => {
    const [, key, ...rest] = path;
    if (path[0] !== "runner" || key === undefined) return path;
    return [key === "secret" ? "secrets" : key, ...rest];
  };
  const postern = readCommon(check, common, "requests", { tables: { runner }, placeOf });
  const warnings = secretWarnings("postern.toml", { runner: { secrets: postern?.runner.secret } });
  return check.checked(postern && { postern, warnings: warnings.map(toOptionWarning) });
}

/** Without those that are undefined. */
function given(options: { [Name in keyof GatewayOptions]?: GatewayOptions[Name] | undefined }) {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Partial<GatewayOptions>;
}
