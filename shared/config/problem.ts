import type { z } from "zod";
import { cut } from "../platform/text/cut.ts";
import { mustBe } from "../platform/text/must-be.ts";
import { didYouMean, wordsLike } from "../platform/text/similar-words.ts";

/** A problem, and the key of the file that has it. */
export type Problem = {
  path: readonly PropertyKey[];
  message: string;
  /** Another key that the message mentions. If the file has that key, its line is added to the message. */
  other?: readonly PropertyKey[];
};

export function problem(path: PropertyKey | readonly PropertyKey[], message: string): Problem {
  return { path: [path].flat(), message };
}

/** Reports problems between keys to zod. */
export function report(context: z.RefinementCtx, problems: readonly Problem[]): void {
  for (const { path, message } of problems) context.addIssue({ code: "custom", path: [...path], message });
}

type Issue = z.core.$ZodIssue;

/**
 * Writes a key for problems and warnings. An endpoint is named by its `path`, if it has one, so that users need not
 * count tables: `endpoint /hooks/github: secret`.
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

/** Writes a problem on one line: its key, and what is wrong. */
export function textOf({ path, message }: Problem, table: unknown): string {
  return `${path.length === 0 ? "(the file)" : keyOf(path, table)}: ${message}`;
}

/** Matches text from a file that a terminal can show unchanged. */
const SHOWN = /^[\p{L}\p{N}\p{P}\p{S} ]{1,255}$/u;

function endpointName(element: unknown): string | undefined {
  const path = valueAt(element, "path");
  if (typeof path !== "string" || !SHOWN.test(path)) return undefined;
  return `endpoint ${/^\/[!-~]*$/.test(path) ? path : JSON.stringify(path)}`;
}

/**
 * Returns the problems of an issue that zod found. Each unknown key is one problem. If a value has several permitted
 * shapes, only the problems of the shape that the user probably meant are returned.
 */
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

/** Returns the problems of the shape that the user probably meant: the only one that fits the value's type. */
function problemsOfMeant(issue: z.core.$ZodIssueInvalidUnion): Problem[] {
  const isOther = ({ code, path }: Issue) =>
    path.length === 0 && (code === "invalid_type" || code === "invalid_value");
  const [meant, ...more] = issue.errors.filter((issues) => !issues.some(isOther));
  if (meant === undefined || more.length > 0) return [issue];
  return meant.flatMap(problemsOf).map(({ path, message }) => problem([...issue.path, ...path], message));
}

/**
 * Removes the problem of a missing key if its table has an unknown key with a similar name. The user then misspelt the
 * key, and the unknown key is reported.
 */
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

/** Descriptions of types, by zod's name of the type. */
type Types = Readonly<Record<string, string>>;

/** Returns the suggestion at the end of a message about an unknown word. */
type Hint = typeof didYouMean;

/**
 * Returns the message for a value that breaks a built-in rule of zod; undefined leaves the message to zod. The message
 * has one line, or one line for each unknown key.
 */
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

/** Returns the keys that a table may have. */
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

/** Messages for keys of a configuration file. */
export const messageFor = messageIn(TOML_TYPES, didYouMean);
/** Messages for keys of an option in code. */
export const messageForOptions = messageIn(JSON_TYPES, didYouMean);
/** Messages for fields of received JSON. They contain no suggestions, because guessing costs time. */
export const messageForJson = messageIn(JSON_TYPES, () => "");

/** Limit on the length of a field's name in a message. The sender chose the name. */
const NAME_MAX = 64;

/**
 * Returns the first problem of JSON that was checked with `messageForJson`, as `details.price: is missing`. If the
 * problem concerns the JSON as a whole, `whole` is its name.
 */
export function firstProblem({ issues }: z.ZodError, whole: string): string {
  const [first] = issues.flatMap(problemsOf);
  const name = first?.path.join(".") || whole;
  const short = name.length > NAME_MAX ? `${cut(name, NAME_MAX)}...` : name;
  return `${short}: ${first?.message ?? "is malformed"}`;
}

type Issued = Extract<z.core.$ZodRawIssue, { code: "invalid_type" | "too_small" | "too_big" }>;

/** Describes a wrong type. The TOML parser returns integers beyond 2^53 as bigint, which no key accepts. */
function wrongType(types: Types, { expected, inst, input }: Issued & { code: "invalid_type" }) {
  const isInteger = inst?._zod.def && "check" in inst._zod.def && inst._zod.def.check === "number_format";
  const type = types[isInteger ? "int" : expected];
  return typeof input === "bigint" && type !== undefined ? `${type} between -2^53 and 2^53` : type;
}

const COUNTED: Readonly<Record<string, string>> = { string: "characters", array: "entries" };

/** Describes a number out of range. The message shows a number, but not text, because text may be a secret. */
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

/** Lists the values as TOML writes them: `"a", "b" or "c"`. */
export function oneOf(values: readonly unknown[]): string {
  const texts = values.map((value) => JSON.stringify(value));
  const last = texts.pop();
  return texts.length === 0 ? `${last}` : `${texts.join(", ")} or ${last}`;
}
