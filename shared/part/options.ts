import { env } from "node:process";
import { z } from "zod";
import type { PosternFile } from "../../config/schema/files.ts";
import { type CheckedTables, checkTables } from "../config/checked-tables.ts";
import { isTable } from "../config/fields.ts";
import { messageForOptions, problem, textOf } from "../config/problem.ts";
import type { PosternConfig } from "../config/read-postern.ts";
import { type Logger, silentLogger } from "../platform/log/logger.ts";
import type { Redis } from "../redis/connect.ts";
import { openHost, type PartKind } from "./host.ts";
import { placesOf } from "./places.ts";
import { redisProblem } from "./redis-option.ts";

/*
 * Options of a part are the tables of the configuration files, named after the files, and values that no file can
 * hold: connections, functions and paths in the host's program. The same code reads and checks the tables and the
 * files.
 */

/** Options of every part. */
export interface PartOptions {
  /** Content of `postern.toml`. */
  postern?: PosternFile;
  /** Your own connection of ioredis 6, used instead of a connection to `redis.url` of `postern`. The part does not close it. */
  redis?: Redis;
  /** Receives each event with its fields, as `console` does. Without it the part logs nothing. */
  log?: Logger;
}

/** Options of a part that answers HTTP requests. */
export interface ServedOptions extends PartOptions {
  /**
   * Path under which your server mounts the handler, such as `/postern`. Set it only if `req.url` still has that
   * path: Fastify and plain `node:http` keep it, Express removes it. A request without it is answered 404.
   */
  mountPath?: string;
}

/**
 * @internal Checks all options of a part, connects to its Redis, and begins the reports. `own` has the schemas of
 * options that only this part has. Throws `start.config_invalid`.
 */
export function openPart<Config extends PosternConfig>(
  options: PartOptions & { serviceId?: number },
  part: PartKind<Config>,
  own: z.ZodRawShape,
) {
  const tables = tablesIn(options);
  const redisOption = z.unknown().superRefine((redis, context) => {
    const wrong = redisProblem(redis, part.need);
    if (wrong !== undefined) context.addIssue(wrong);
  });
  const schema = z.strictObject({
    postern: tableOption.optional(),
    redis: redisOption.optional(),
    log: z.unknown().refine(isLogger, "must have the functions info, warn and error").optional(),
    ...own,
  });
  tables.read({ name: OPTIONS, schema });
  const { redis, serviceId, log = silentLogger } = options;
  const config = part.read(tables, env);
  if (redis !== undefined && config !== undefined && placesOf(config.postern.redis).length > 1)
    tables.report(OPTIONS, [problem("redis", "must not be set with partitions: the part connects to each")]);
  return openHost(part, tables.checked(config), { redis, serviceId, log });
}

/** @internal */
export const tableOption = z.record(z.string(), z.unknown());

/** @internal */
export const functionOption = z
  .unknown()
  .refine((value) => typeof value === "function", "must be a function");

/** @internal */
export const mountPath = z
  .string()
  .regex(/^(?:\/[^/?#\s]+)+$/, 'must be a path without a trailing slash, such as "/postern"')
  .optional();

/** Name under which `checkTables` checks the options object itself. All other names in these checks are file names. */
const OPTIONS = "";

function tablesIn(options: object): CheckedTables {
  const optionOf = (name: string) => name.slice(0, -".toml".length);
  const written = (name: string): unknown =>
    name === OPTIONS ? options : Reflect.get(options, optionOf(name));
  return checkTables({
    has: (name) => written(name) !== undefined,
    table(name) {
      if (name === OPTIONS) return options;
      const table = written(name) ?? {};
      return isTable(table) ? defined(table) : undefined; // the schema of the options reports any other value
    },
    problems: [],
    messageFor: messageForOptions,
    linesOf: (name, problems) =>
      problems.map((each) => {
        const text = textOf(each, written(name));
        return name === OPTIONS ? text : `${optionOf(name)}: ${text}`;
      }),
  });
}

/** Removes keys that are undefined, because a file cannot have such keys. */
function defined(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(defined);
  if (!isTable(value) || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  return Object.fromEntries(entries.map(([key, each]) => [key, defined(each)]));
}

function isLogger(log: unknown): boolean {
  if (typeof log !== "object" || log === null) return false;
  return ["info", "warn", "error"].every((name) => typeof Reflect.get(log, name) === "function");
}
