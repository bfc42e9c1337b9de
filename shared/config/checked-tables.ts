import type { z } from "zod";
import { AppError } from "../platform/errors/app-error.ts";
import { ALWAYS, guarded, unlessWrong } from "./between-keys.ts";
import { type Problem, problemsOf, withoutMisspelt } from "./problem.ts";

/** Where the tables of the configuration files are written: in a directory, or in the options of a program. */
export type Source = {
  /** Start of relative paths in the tables; undefined for the working directory. */
  dir?: string;
  has(name: string): boolean;
  /** The unchecked table: `{}` if it is absent, undefined if `problems` say why it cannot be read. */
  table(name: string): unknown;
  problems: readonly string[];
  messageFor: z.core.$ZodErrorMap;
  /** A line of text for each problem of a table: where it is, and what is wrong. */
  linesOf(name: string, problems: readonly Problem[]): string[];
};

/** A table by its name, and what checks it. */
type Reading<Schema extends z.ZodType> = {
  name: string;
  schema: Schema;
  /** If the table is absent, the result is `undefined` instead of a table without keys. */
  optional?: boolean;
  /** The unchecked table without what its reader does not need. */
  narrowed?: (table: unknown) => unknown;
  /** Finds what the schema does not report once it has found other problems; it takes the unchecked table. */
  problemsIn?: (table: unknown) => readonly Problem[];
};

export type CheckedTables = ReturnType<typeof checkTables>;

/** Checks tables, each by its schema, and then between them, whether or not something in them is wrong. */
export function checkTables(source: Source) {
  const found = new Map<string, Problem[]>();
  /** The tables that were read, guarded against reads of a wrong key. */
  const readable = new Map<string, unknown>();

  function report(name: string, problems: readonly Problem[]): void {
    if (problems.length > 0) found.set(name, [...(found.get(name) ?? []), ...problems]);
  }

  return {
    dir: source.dir,
    has: source.has,
    table: source.table,
    report,

    /** Reports what a rule between tables finds, as a problem of `name`. A rule that reads a wrong key or an unread table finds nothing. */
    reportBetween<Tables extends readonly unknown[]>(
      name: string,
      names: { readonly [Table in keyof Tables]: string },
      rule: (...tables: Tables) => readonly Problem[],
    ): void {
      const tables = names.map((each) => readable.get(each));
      if (tables.includes(undefined)) return;
      report(
        name,
        unlessWrong(() => rule(...(tables as unknown as Tables)), found.size > 0),
      );
    },

    /** The checked table; undefined if it is absent and optional, or if anything in it is wrong. */
    read<Schema extends z.ZodType>({ name, schema, optional, narrowed, problemsIn }: Reading<Schema>) {
      if (optional && !source.has(name)) return undefined;
      const raw = source.table(name);
      if (raw === undefined) return undefined;
      const guarding = schema.superRefine((read, { issues }) => {
        readable.set(name, guarded(read, issues));
      }, ALWAYS);
      const { data, error } = guarding.safeParse(narrowed?.(raw) ?? raw, { error: source.messageFor });
      report(name, [...(error?.issues.flatMap(problemsOf) ?? []), ...(problemsIn?.(raw) ?? [])]);
      return data;
    },

    /** Returns `config` if nothing is wrong; else throws `start.config_invalid`, which lists every problem, one a line. */
    checked<Config>(config: Config | undefined): Config {
      const lines = [...found].flatMap(([name, problems]) => source.linesOf(name, withoutMisspelt(problems)));
      const reasons = [...source.problems, ...new Set(lines)];
      if (reasons.length === 0 && config !== undefined) return config;
      throw new AppError("start.config_invalid", { reason: reasons.join("\n") });
    },
  };
}
