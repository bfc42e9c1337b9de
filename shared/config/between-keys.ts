import { z } from "zod";
import { wordsLike } from "../platform/text/similar-words.ts";
import { isTable } from "./fields.ts";
import { knownKeys, type Problem } from "./problem.ts";

/** Finds problems that involve several keys. */
export type Rule<Table> = (table: Table) => readonly Problem[];

/** Makes a rule that reports `broken` if `holds` returns false. */
export function rule<Table>(holds: (table: Table) => boolean, broken: Problem): Rule<Table> {
  return (table) => (holds(table) ? [] : [broken]);
}

/**
 * Checks a table by the rules between its keys, even if some keys are invalid. A rule that reads an invalid key is
 * skipped. So the user sees all problems at once, and no problem that is only the consequence of an invalid key.
 */
export function between<Table>(...rules: Rule<Table>[]): z.core.$ZodCheck<Table> {
  const judge = (table: Table, context: z.core.$RefinementCtx<Table>): void => {
    if (!isTable(table)) return;
    const readable = guarded(table, context.issues);
    const isWrong = context.issues.length > 0;
    const found = rules.flatMap((each) => unlessWrong(() => each(readable), isWrong));
    for (const { path, message } of found)
      context.addIssue({ code: "custom", path: [...path], message, params: FOUND_BY_RULE });
  };
  return z.superRefine(judge, ALWAYS);
}

/** Option that runs a refinement even if its table is invalid. By default, zod skips the refinement of such a table. */
export const ALWAYS = { when: () => true };

/**
 * Applies a rule to a table. If the table is invalid, a rule that throws finds nothing: zod leaves partly parsed
 * values around an invalid key, and these can break a rule in any way.
 */
export function unlessWrong<Found>(find: () => readonly Found[], isWrong: boolean): readonly Found[] {
  try {
    return find();
  } catch (error) {
    if (!isWrong && !(error instanceof WrongKey)) throw error;
    return [];
  }
}

/** Checks each entry of a list or table separately, so that an invalid key excludes only its own entry from the rule. */
export function inEach<Entry, Found>(
  list: readonly Entry[],
  find: (entry: Entry, index: number) => readonly Found[],
): Found[];
export function inEach<Entry, Found>(
  table: Readonly<Record<string, Entry>>,
  find: (entry: Entry, name: string) => readonly Found[],
): Found[];
export function inEach<Found>(
  table: object,
  find: (entry: unknown, key: never) => readonly Found[],
): Found[] {
  const whole = guardedTables.get(table);
  return Object.keys(whole ?? table).flatMap((name) => {
    const key = Array.isArray(table) ? Number(name) : name;
    return unlessWrong(() => find(Reflect.get(table, name), key as never), whole !== undefined);
  });
}

/** Thrown when a rule reads an invalid key. */
class WrongKey extends Error {}

/** Maps each proxy to its original table or list. */
const guardedTables = new WeakMap<object, object>();

/** Marks a problem found by a rule. The key with the problem is valid by itself, so other rules may read it. */
const FOUND_BY_RULE = { between: "keys" };

type Path = readonly PropertyKey[];

/** Returns the keys that are invalid by themselves. Problems found by a rule are not included. */
function wrongKeys(issues: readonly z.core.$ZodRawIssue[]): Path[] {
  return issues.flatMap((issue): Path[] => {
    if (issue.code === "unrecognized_keys") return misspeltKeys(issue);
    const isReadable = issue.code === "custom" && issue.params === FOUND_BY_RULE;
    return isReadable || !issue.path?.length ? [] : [issue.path];
  });
}

/** Returns the absent keys that the user may have meant by an unknown key. */
function misspeltKeys({ keys, inst, input, path = [] }: UnknownKeys): Path[] {
  const absent = (key: string) => !isTable(input) || input[key] === undefined;
  const meant = keys.flatMap((key) => wordsLike(key, knownKeys(inst)).filter(absent));
  return meant.map((key) => [...path, key]);
}

type UnknownKeys = Extract<z.core.$ZodRawIssue, { code: "unrecognized_keys" }>;

/** Wraps a table so that reading an invalid key throws. */
export function guarded<Table>(table: Table, issues: readonly z.core.$ZodRawIssue[]): Table {
  return withoutPaths(table, wrongKeys(issues)) as Table;
}

function withoutPaths(value: unknown, wrong: readonly Path[]): unknown {
  const isPlain =
    Array.isArray(value) || (isTable(value) && Object.getPrototypeOf(value) === Object.prototype);
  if (wrong.length === 0 || !isPlain) return value;
  const proxy = new Proxy(value, {
    // The parsed table lacks entries with an invalid name. A rule that lists the entries would miss these, so the rule
    // is skipped.
    ownKeys(target) {
      const lost = wrong.find(([first]) => first !== undefined && !Object.hasOwn(target, first));
      if (lost !== undefined) throw new WrongKey(`${String(lost[0])} is wrong by itself`);
      return Reflect.ownKeys(target);
    },
    get(target, key) {
      const here = wrong.filter(([first]) => String(first) === String(key));
      if (here.some((path) => path.length === 1)) throw new WrongKey(`${String(key)} is wrong by itself`);
      const read: unknown = Reflect.get(target, key);
      if (read === z.NEVER) throw new WrongKey(`${String(key)} was not read`);
      return withoutPaths(
        read,
        here.map((path) => path.slice(1)),
      );
    },
  });
  guardedTables.set(proxy, value);
  return proxy;
}
