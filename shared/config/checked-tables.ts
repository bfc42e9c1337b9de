import type { z } from "zod";
import { AppError } from "../platform/errors/app-error.ts";
import { ALWAYS, guarded, unlessWrong } from "./between-keys.ts";
import { type Problem, problemsOf, withoutMisspelt } from "./problem.ts";

/** Source of the configuration tables: a directory, or options that a program passes in code. */
export type Source = {
  /** Base of relative paths in the tables; undefined for the working directory. */
  dir?: string;
  has(name: string): boolean;
  /**
   * Returns the unvalidated table; `{}` if it is absent. Returns undefined if it cannot be read; `problems` then has
   * the reason.
   */
  table(name: string): unknown;
  problems: readonly string[];
  messageFor: z.core.$ZodErrorMap;
  /** Writes a line of text for each problem of a table: its place and what is wrong. */
  linesOf(name: string, problems: readonly Problem[]): string[];
};

/** A table to read: its name and its checks. */
type Reading<Schema extends z.ZodType> = {
  name: string;
  schema: Schema;
  /** If true and the table is absent, the result is `undefined` instead of an empty table. */
  optional?: boolean;
  /** Removes the keys that the reader does not need from the unvalidated table. */
  narrowed?: (table: unknown) => unknown;
  /** Finds problems that the schema does not report once it has found others. Takes the unvalidated table. */
  problemsIn?: (table: unknown) => readonly Problem[];
};

export type CheckedTables = ReturnType<typeof checkTables>;

/** Checks each table by its schema, and then rules between the tables, even if some values are invalid. */
export function checkTables(source: Source) {
  const found = new Map<string, Problem[]>();
  /** The parsed tables. Reading an invalid key throws. */
  const readable = new Map<string, unknown>();

  function report(name: string, problems: readonly Problem[]): void {
    if (problems.length > 0) found.set(name, [...(found.get(name) ?? []), ...problems]);
  }

  return {
    dir: source.dir,
    has: source.has,
    table: source.table,
    report,

    /**
     * Applies a rule between tables, and reports its problems for the table `name`. A rule that reads an invalid key
     * or an unread table finds nothing.
     */
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

    /** Returns the validated table. Returns undefined if it is absent and optional, or if it has a problem. */
    read<Schema extends z.ZodType>({ name, schema, optional, narrowed, problemsIn }: Reading<Schema>) {
      if (optional && !source.has(name)) return undefined;
      const raw = source.table(name);
      if (raw === undefined) return undefined;
      const guarding = schema.superRefine((read, { issues }) => {
        readable.set(name, guarded(read, issues));
      }, ALWAYS);
      // Each schema reads one table, so compiling it would cost more than it saves.
      const { data, error } = guarding.safeParse(narrowed?.(raw) ?? raw, {
        error: source.messageFor,
        jitless: true,
      });
      report(name, [...(error?.issues.flatMap(problemsOf) ?? []), ...(problemsIn?.(raw) ?? [])]);
      return data;
    },

    /**
     * Returns `config` if there are no problems. Otherwise throws `start.config_invalid`, which lists every problem
     * on its own line.
     */
    checked<Config>(config: Config | undefined): Config {
      const lines = [...found].flatMap(([name, problems]) => source.linesOf(name, withoutMisspelt(problems)));
      const reasons = [...source.problems, ...new Set(lines)];
      if (reasons.length === 0 && config !== undefined) return config;
      throw new AppError("start.config_invalid", { reason: reasons.join("\n") });
    },
  };
}
