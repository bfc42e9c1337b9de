import { env } from "node:process";
import type { z } from "zod";
import { checkTables, type Reading } from "../config/check-tables.ts";
import { messageForJson, type Problem, problem, textOf, withoutMisspelt } from "../config/problem.ts";
import type { Env } from "../config/secrets.ts";
import { AppError } from "../errors/app-error.ts";
import { misspelt, toOption, toOptionPath, toOptionWords, toTable } from "./option-names.ts";

type Path = readonly PropertyKey[];

/** A table that was made of options, and the schema of its configuration file. */
type OptionReading<Schema extends z.ZodType> = Reading<Schema> & {
  /** Where the options are that became this key; by default where the key is. */
  placeOf?: (path: Path) => Path;
};

export type OptionCheck = ReturnType<typeof checkOptions>;

/** Where the options of a part are checked by the rules of the configuration files. */
export function checkOptions(options: object) {
  const tables = checkTables(messageForJson);
  /** By the paths of options, in the words of the files. */
  const problems = misspelt(options);

  /** Of a key of a table. */
  function report(found: readonly Problem[], placeOf = (path: Path): Path => path): void {
    const toOptions = (path: Path) => toOptionPath(placeOf(path));
    problems.push(
      ...found.map(({ path, message, other }) => ({
        ...{ path: toOptions(path), message },
        ...(other && { other: toOptions(other) }),
      })),
    );
  }

  return {
    /** Where secrets given as `env:NAME` are. */
    env: env as Env,

    report,

    /** Reports what a rule between tables finds. */
    reportBetween<Tables extends readonly unknown[]>(
      names: { readonly [Table in keyof Tables]: string },
      rule: (...tables: Tables) => readonly Problem[],
    ): void {
      report(tables.between(names, rule));
    },

    /** Of an option by its own name. */
    reportOption(name: string | Path, message: string): void {
      problems.push(problem(name, message));
    },

    /** What the schema makes of the table; undefined if anything in it is wrong. */
    read<Schema extends z.ZodType>({ placeOf, ...reading }: OptionReading<Schema>) {
      const { data, problems: found } = tables.read(reading);
      report(found, placeOf);
      return data;
    },

    /** Returns `read` if nothing is wrong; else throws `start.config_invalid`, which lists every problem, one a line. */
    checked<Read>(read: Read | undefined): Read {
      if (problems.length === 0 && read !== undefined) return read;
      const told = withoutMisspelt(problems).map(({ path, message }) =>
        textOf({ path, message: toOptionWords(message) }, options),
      );
      throw new AppError("start.config_invalid", { reason: [...new Set(told)].join("\n") });
    },
  };
}

/** The options beside those of `own`, as a table. */
export function tableOf(options: object, own: readonly string[] = []): Record<string, unknown> {
  const isOther = ([name]: [string, unknown]) => !own.includes(toOption(name));
  const rest = Object.fromEntries(Object.entries(options).filter(isOther));
  return toTable(rest) as Record<string, unknown>;
}
