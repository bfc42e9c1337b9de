import { env } from "node:process";
import type { z } from "zod";
import { messageForJson, type Problem, problemsOf, textOf } from "../config/problem.ts";
import type { Env } from "../config/secrets.ts";
import { AppError } from "../errors/app-error.ts";
import { misspelt, toOptionProblem, toTable } from "./option-names.ts";

type Path = readonly PropertyKey[];

/** A table that was made of options, by the schema of its configuration file. */
type Reading<Schema extends z.ZodType> = {
  schema: Schema;
  table: unknown;
  /** Finds what the schema does not report once it has found other problems; it takes the unchecked table. */
  problemsIn?: (table: unknown) => readonly Problem[];
  /** Where the options are that became this key; by default where the key is. */
  placeOf?: (path: Path) => Path;
};

export type OptionCheck = ReturnType<typeof checkOptions>;

/** Where the options of a part are checked by the rules of the configuration files. */
export function checkOptions(options: object) {
  const problems = misspelt(options).map((each) => textOf(each, options));

  /** Of a key of a table. */
  function report(found: readonly Problem[], placeOf = (path: Path): Path => path): void {
    for (const { path, message } of found)
      problems.push(textOf(toOptionProblem({ path: placeOf(path), message }), options));
  }

  return {
    /** Where secrets given as `env:NAME` are. */
    env: env as Env,

    report,

    /** Of an option by its own name. */
    reportOption(name: string, message: string): void {
      problems.push(`${name}: ${message}`);
    },

    /** What the schema makes of the table; undefined if anything in it is wrong. */
    read<Schema extends z.ZodType>({ schema, table, problemsIn, placeOf }: Reading<Schema>) {
      const result = schema.safeParse(table, { error: messageForJson });
      report([...(result.error?.issues.flatMap(problemsOf) ?? []), ...(problemsIn?.(table) ?? [])], placeOf);
      return result.data;
    },

    /** Returns `read` if nothing is wrong; else throws `start.config_invalid`, which lists every problem, one a line. */
    checked<Read>(read: Read | undefined): Read {
      if (problems.length === 0 && read !== undefined) return read;
      throw new AppError("start.config_invalid", { reason: [...new Set(problems)].join("\n") });
    },
  };
}

/** The options beside those of `own`, as a table. */
export function tableOf(options: object, own: readonly string[] = []): Record<string, unknown> {
  const rest = Object.fromEntries(Object.entries(options).filter(([name]) => !own.includes(name)));
  return toTable(rest) as Record<string, unknown>;
}
