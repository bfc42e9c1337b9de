import type { z } from "zod";
import { ALWAYS, guarded, unlessWrong } from "./between-keys.ts";
import { type Problem, problemsOf } from "./problem.ts";

/** A table and what checks it. */
export type Reading<Schema extends z.ZodType> = {
  /** Name of the table in rules between tables; absent if none reads it. */
  name?: string;
  schema: Schema;
  table: unknown;
  /** Finds what the schema does not report once it has found other problems; it takes the unchecked table. */
  problemsIn?: ((table: unknown) => readonly Problem[]) | undefined;
};

/** Checks tables, each by its schema, and then between them, whether or not something in them is wrong. */
export function checkTables(messageFor: z.core.$ZodErrorMap) {
  /** The tables that were read, guarded against reads of a wrong key. */
  const readable = new Map<string, unknown>();
  let isWrong = false;

  return {
    /** `data` is what the schema makes of the table; undefined if anything in it is wrong. */
    read<Schema extends z.ZodType>({ name, schema, table, problemsIn }: Reading<Schema>) {
      const told = schema.superRefine((read, { issues }) => {
        if (name !== undefined) readable.set(name, guarded(read, issues));
      }, ALWAYS);
      const { data, error } = told.safeParse(table, { error: messageFor });
      const problems = [...(error?.issues.flatMap(problemsOf) ?? []), ...(problemsIn?.(table) ?? [])];
      isWrong ||= problems.length > 0;
      return { data, problems };
    },

    /**
     * What a rule between tables finds. Nothing if the rule reads a key that is wrong by itself, or if one of the tables was not read.
     */
    between<Tables extends readonly unknown[]>(
      names: { readonly [Table in keyof Tables]: string },
      rule: (...tables: Tables) => readonly Problem[],
    ): readonly Problem[] {
      const tables = names.map((name) => readable.get(name));
      if (tables.includes(undefined)) return [];
      return unlessWrong(() => rule(...(tables as unknown as Tables)), isWrong);
    },
  };
}
