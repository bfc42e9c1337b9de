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
 * Reads the options with which another program creates a part. They are of two kinds: the tables of the configuration files,
 * under the names of the files, and values that no file can hold. The latter are connections, functions and paths in the host
 * program. The tables are read and checked by the same code as the files.
 */

/** Options of every part. */
export interface PartOptions {
  /** Content of `postern.toml`. */
  postern?: PosternFile;
  /** Your own connection of ioredis 6, used instead of a connection to `redis.url` of `postern`. The part does not close it. */
  redis?: Redis;
  /** Logger, called with each event and its fields, as `console` would be. Without it, the part logs nothing. */
  log?: Logger;
}

/** Options of a part that answers HTTP requests. */
export interface ServedOptions extends PartOptions {
  /**
   * Path under which your server mounts the handler, such as `/postern`. Set it only if `req.url` still begins with that path
   * when the handler is called: Fastify and plain `node:http` keep it, Express removes it. Requests outside the path are answered
   * 404.
   */
  mountPath?: string;
}

/**
 * @internal Checks all options of a part, connects to its Redis, and begins the reports. `own` has the schemas of the options
 * that only this kind of part has. Throws `start.config_invalid`.
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

/** Name of the options object itself for `checkTables`, which checks tables by name. All other names there are names of files. */
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
      return isTable(table) ? defined(table) : undefined; // A value that is no table is reported by the schema of the options.
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

/** Removes keys whose value is undefined. The schemas are made for files, which cannot have such keys. */
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
