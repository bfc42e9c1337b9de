import type { z } from "zod";
import { cut } from "../platform/text/cut.ts";
import { mustBe } from "../platform/text/must-be.ts";
import { didYouMean, wordsLike } from "../platform/text/similar-words.ts";

/** What is wrong, and at which key of the file. */
export type Problem = {
  path: readonly PropertyKey[];
  message: string;
  /** Another key that the message speaks of; its line is told after it, if the file has it. */
  other?: readonly PropertyKey[];
};

export function problem(path: PropertyKey | readonly PropertyKey[], message: string): Problem {
  return { path: [path].flat(), message };
}

/** Hands problems between keys to zod. */
export function report(context: z.RefinementCtx, problems: readonly Problem[]): void {
  for (const { path, message } of problems) context.addIssue({ code: "custom", path: [...path], message });
}

type Issue = z.core.$ZodIssue;

/**
 * A key as problems and warnings write it. An endpoint is told by its `path`, if it has one, so that nobody has to count
 * tables: `endpoint /hooks/github: secret`.
 */
export function keyOf(path: readonly PropertyKey[], table: unknown): string {
  const [list, index, ...rest] = path;
  if (list !== "endpoints" || typeof index !== "number") return dotted(path);
  const name = endpointName(valueAt(valueAt(table, list), index));
  if (name === undefined) return dotted(path);
  return rest.length === 0 ? name : `${name}: ${dotted(rest)}`;
}

function dotted(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === "number") return `${text}[${part}]`;
    return text === "" ? String(part) : `${text}.${String(part)}`;
  }, "");
}

/** A problem in a line: its key, and what is wrong with it. */
export function textOf({ path, message }: Problem, table: unknown): string {
  return `${path.length === 0 ? "(the file)" : keyOf(path, table)}: ${message}`;
}

/** Text of somebody's file that a terminal shows as it is. */
const SHOWN = /^[\p{L}\p{N}\p{P}\p{S} ]{1,255}$/u;

function endpointName(element: unknown): string | undefined {
  const path = valueAt(element, "path");
  if (typeof path !== "string" || !SHOWN.test(path)) return undefined;
  return `endpoint ${/^\/[!-~]*$/.test(path) ? path : JSON.stringify(path)}`;
}

/** The problems of an issue that zod found: one for each unknown key, and those of the shape that a value was meant to have. */
export function problemsOf(issue: Issue): Problem[] {
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys.map((key, at) =>
        problem([...issue.path, key], issue.message.split("\n")[at] ?? "unknown key"),
      );
    case "invalid_key":
      return issue.issues.map(({ message }) => problem(issue.path, message));
    case "invalid_union":
      return problemsOfMeant(issue);
    default:
      return [issue];
  }
}

/** Of the shapes that a value may have, only one may fit its type: that one was meant. */
function problemsOfMeant(issue: z.core.$ZodIssueInvalidUnion): Problem[] {
  const isOther = ({ code, path }: Issue) =>
    path.length === 0 && (code === "invalid_type" || code === "invalid_value");
  const [meant, ...more] = issue.errors.filter((issues) => !issues.some(isOther));
  if (meant === undefined || more.length > 0) return [issue];
  return meant.flatMap(problemsOf).map(({ path, message }) => problem([...issue.path, ...path], message));
}

/** The problems without those of a missing key that an unknown key beside it resembles: that one is the key, misspelt. */
export function withoutMisspelt(problems: readonly Problem[]): Problem[] {
  const unknown = problems.filter(({ message }) => message.startsWith("unknown key"));
  const isMisspelt = ({ path, message, other = path }: Problem) =>
    message.startsWith("is missing") &&
    unknown.some(({ path: found }) => isLike(found, path) || isLike(found, other));
  return problems.filter((each) => !isMisspelt(each));
}

function isLike(one: Path, other: Path): boolean {
  const isBeside = dotted(one.slice(0, -1)) === dotted(other.slice(0, -1));
  return isBeside && wordsLike(String(one.at(-1)), [String(other.at(-1))]).length > 0;
}

type Path = Problem["path"];

/** What a value of a type must be, by zod's name of the type. */
type Types = Readonly<Record<string, string>>;

/** The end of the message about a word that is none of the known ones. */
type Hint = typeof didYouMean;

/** What a key says that breaks the rules of zod's own, in a line; undefined leaves it to zod. Of unknown keys each has a line. */
const messageIn =
  (types: Types, hint: Hint) =>
  (issue: z.core.$ZodRawIssue): string | undefined => {
    const mustBeOneOf = (values: readonly unknown[], input: unknown): string =>
      mustBe(oneOf(values), input) + hintFor(input, values, hint);
    switch (issue.code) {
      case "unrecognized_keys":
        return issue.keys.map((key) => `unknown key${hint(key, knownKeys(issue.inst))}`).join("\n");
      case "invalid_type":
        return issue.input === undefined ? "is missing" : wrongType(types, issue);
      case "invalid_value":
        return mustBeOneOf(issue.values, issue.input);
      case "invalid_union":
        if (!Array.isArray(issue.options) || typeof issue.discriminator !== "string") return undefined;
        return mustBeOneOf(issue.options, valueAt(issue.input, issue.discriminator));
      case "too_small":
        return outOfRange(issue, issue.minimum, issue.inclusive === false ? "above" : "at least");
      case "too_big":
        return outOfRange(issue, issue.maximum, issue.inclusive === false ? "below" : "at most");
      default:
        return undefined;
    }
  };

function hintFor(input: unknown, values: readonly unknown[], hint: Hint): string {
  const words = values.filter((value) => typeof value === "string");
  return typeof input === "string" ? hint(input, words, (word) => JSON.stringify(word)) : "";
}

/** The keys that a table may have. */
export function knownKeys(schema: z.core.$ZodRawIssue["inst"]): string[] {
  const shape = schema?._zod.def && "shape" in schema._zod.def ? schema._zod.def.shape : {};
  return Object.keys(shape as object);
}

const JSON_TYPES: Types = {
  string: "must be a string",
  number: "must be a number",
  int: "must be an integer",
  boolean: "must be true or false",
  array: "must be an array",
  object: "must be an object",
  record: "must be an object",
};

const TOML_TYPES: Types = { ...JSON_TYPES, object: "must be a table", record: "must be a table" };

/** For a key of a configuration file. */
export const messageFor = messageIn(TOML_TYPES, didYouMean);
/** For a key of an option of code. */
export const messageForOptions = messageIn(JSON_TYPES, didYouMean);
/** For a field of JSON that somebody sent: nobody's time is spent on guesses at what it means. */
export const messageForJson = messageIn(JSON_TYPES, () => "");

/** So much of a field's name is enough to find it; its sender has chosen it. */
const NAME_MAX = 64;

/** The first problem of JSON that was checked with `messageForJson`, as `details.price: is missing`; `whole` names the JSON. */
export function firstProblem({ issues }: z.ZodError, whole: string): string {
  const [first] = issues.flatMap(problemsOf);
  const name = first?.path.join(".") || whole;
  const short = name.length > NAME_MAX ? `${cut(name, NAME_MAX)}...` : name;
  return `${short}: ${first?.message ?? "is malformed"}`;
}

type Issued = Extract<z.core.$ZodRawIssue, { code: "invalid_type" | "too_small" | "too_big" }>;

/** TOML hands on an integer beyond 2^53 as a bigint, which is no type of any key. */
function wrongType(types: Types, { expected, inst, input }: Issued & { code: "invalid_type" }) {
  const isInteger = inst?._zod.def && "check" in inst._zod.def && inst._zod.def.check === "number_format";
  const type = types[isInteger ? "int" : expected];
  return typeof input === "bigint" && type !== undefined ? `${type} between -2^53 and 2^53` : type;
}

const COUNTED: Readonly<Record<string, string>> = { string: "characters", array: "entries" };

/** A number that was found is shown. Text is not: it may be a secret. */
function outOfRange({ origin, input }: Issued & { origin: string }, limit: number | bigint, bound: string) {
  const counted = COUNTED[origin];
  if (counted !== undefined)
    return bound === "at least" && Number(limit) === 1
      ? "is empty"
      : `must have ${bound} ${limit} ${counted}`;
  const found = typeof input === "number" || typeof input === "bigint" ? `, not ${input}` : "";
  return `must be ${bound} ${limit}${found}`;
}

function valueAt(value: unknown, key: PropertyKey): unknown {
  return typeof value === "object" && value !== null
    ? (value as Record<PropertyKey, unknown>)[key]
    : undefined;
}

/** The values as TOML writes them: `"a", "b" or "c"`. */
export function oneOf(values: readonly unknown[]): string {
  const texts = values.map((value) => JSON.stringify(value));
  const last = texts.pop();
  return texts.length === 0 ? `${last}` : `${texts.join(", ")} or ${last}`;
}
