import { z } from "zod";
import { wordsLike } from "../platform/text/similar-words.ts";
import { isTable } from "./fields.ts";
import { knownKeys, type Problem } from "./problem.ts";

/** Finds what no single key can know. */
export type Rule<Table> = (table: Table) => readonly Problem[];

/** A rule with one sentence, at one key. */
export function rule<Table>(holds: (table: Table) => boolean, broken: Problem): Rule<Table> {
  return (table) => (holds(table) ? [] : [broken]);
}

/**
 * The check of a table by the rules between its keys, also if some keys are wrong by themselves. A rule that reads one of those is left
 * out, so that no problem hides another and none is made up.
 */
export function between<Table>(...rules: Rule<Table>[]): z.core.$ZodCheck<Table> {
  const judge = (table: Table, context: z.core.$RefinementCtx<Table>): void => {
    if (!isTable(table)) return;
    const readable = guarded(table, context.issues);
    const isWrong = context.issues.length > 0;
    const found = rules.flatMap((each) => unlessWrong(() => each(readable), isWrong));
    for (const { path, message } of found)
      context.addIssue({ code: "custom", path: [...path], message, params: OF_A_RULE });
  };
  return z.superRefine(judge, ALWAYS);
}

/** zod leaves a refinement out if anything in its table is wrong. */
export const ALWAYS = { when: () => true };

/**
 * Applies a rule to a table that may be wrong. A rule that throws there finds nothing: zod leaves half-read values around a wrong key,
 * and they can break a rule in any way.
 */
export function unlessWrong<Found>(find: () => readonly Found[], isWrong: boolean): readonly Found[] {
  try {
    return find();
  } catch (error) {
    if (!isWrong && !(error instanceof WrongKey)) throw error;
    return [];
  }
}

/** Judges each entry of a list or table by itself: a wrong key takes only its own entry out of the rule. */
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

/** A rule read a key that is wrong by itself. */
class WrongKey extends Error {}

/** The tables and lists behind proxies. */
const guardedTables = new WeakMap<object, object>();

/** Marks what a rule found: the key can be read all the same. */
const OF_A_RULE = { between: "keys" };

type Path = readonly PropertyKey[];

/** The keys that are wrong by themselves. A rule says nothing against the form of its key. */
function wrongKeys(issues: readonly z.core.$ZodRawIssue[]): Path[] {
  return issues.flatMap((issue): Path[] => {
    if (issue.code === "unrecognized_keys") return misspeltKeys(issue);
    const isReadable = issue.code === "custom" && issue.params === OF_A_RULE;
    return isReadable || !issue.path?.length ? [] : [issue.path];
  });
}

/** The absent keys that an unknown key resembles: it may be one of them, misspelt. */
function misspeltKeys({ keys, inst, input, path = [] }: UnknownKeys): Path[] {
  const absent = (key: string) => !isTable(input) || input[key] === undefined;
  const meant = keys.flatMap((key) => wordsLike(key, knownKeys(inst)).filter(absent));
  return meant.map((key) => [...path, key]);
}

type UnknownKeys = Extract<z.core.$ZodRawIssue, { code: "unrecognized_keys" }>;

/** The table, of which no key can be read that is wrong by itself. */
export function guarded<Table>(table: Table, issues: readonly z.core.$ZodRawIssue[]): Table {
  return withoutPaths(table, wrongKeys(issues)) as Table;
}

function withoutPaths(value: unknown, wrong: readonly Path[]): unknown {
  const isPlain =
    Array.isArray(value) || (isTable(value) && Object.getPrototypeOf(value) === Object.prototype);
  if (wrong.length === 0 || !isPlain) return value;
  const proxy = new Proxy(value, {
    // An entry whose name is wrong is not in the table that was read.
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
