import type { z } from "zod";

/** What is wrong, and at which key of the file. */
export type Problem = { path: readonly PropertyKey[]; message: string };

export function problem(path: PropertyKey | readonly PropertyKey[], message: string): Problem {
  return { path: [path].flat(), message };
}

/** Hands problems between keys to zod. */
export function report(context: z.RefinementCtx, problems: readonly Problem[]): void {
  for (const { path, message } of problems) context.addIssue({ code: "custom", path: [...path], message });
}

type Issue = z.core.$ZodIssue;

/**
 * A key as problems and warnings write it. An element of a list is told by its `path` too, if it has one, so that nobody has
 * to count tables: `endpoints[0] (/hooks/github).secret`.
 */
export function keyOf(path: readonly PropertyKey[], table: unknown): string {
  let text = "";
  let value = table;
  for (const part of path) {
    value = valueAt(value, part);
    if (typeof part === "number") text += `[${part}]${label(value)}`;
    else text += text === "" ? String(part) : `.${String(part)}`;
  }
  return text;
}

/** A problem in a line: its key, and what is wrong with it. */
export function textOf({ path, message }: Problem, table: unknown): string {
  return `${path.length === 0 ? "(the file)" : keyOf(path, table)}: ${message}`;
}

function label(element: unknown): string {
  const path = valueAt(element, "path");
  return typeof path === "string" && /^\/[!-~]{0,255}$/.test(path) ? ` (${path})` : "";
}

/** The problems of an issue that zod found: one for each unknown key, and those of the shape that a value was meant to have. */
export function problemsOf(issue: Issue): Problem[] {
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys.map((key) => problem([...issue.path, key], "unknown key"));
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

/** What a value of a type must be, by zod's name of the type. */
type Types = Readonly<Record<string, string>>;

/** What a key says that breaks the rules of zod's own; undefined leaves it to zod. */
const messageIn =
  (types: Types) =>
  (issue: z.core.$ZodRawIssue): string | undefined => {
    switch (issue.code) {
      case "invalid_type":
        return issue.input === undefined ? "is missing" : types[issue.expected];
      case "invalid_value":
        return mustBe(oneOf(issue.values), issue.input);
      case "invalid_union":
        if (!Array.isArray(issue.options) || typeof issue.discriminator !== "string") return undefined;
        return mustBe(oneOf(issue.options), valueAt(issue.input, issue.discriminator));
      case "too_small":
        return SIZED.includes(issue.origin) ? tooFew(issue.minimum) : `must be at least ${issue.minimum}`;
      case "too_big":
        return SIZED.includes(issue.origin)
          ? `is longer than ${issue.maximum}`
          : `must be at most ${issue.maximum}`;
      default:
        return undefined;
    }
  };

/** The types of TOML. A whole number beyond 2^53 comes as a bigint. */
const TOML_TYPES: Types = {
  string: "must be text",
  number: "must be a number, with no more digits than a double has",
  int: "must be a whole number of at most 2^53 - 1",
  boolean: "must be true or false",
  array: "must be a list",
  object: "must be a table",
  record: "must be a table",
};

const JSON_TYPES: Types = {
  string: "must be a string",
  number: "must be a number",
  int: "must be a whole number of at most 2^53 - 1",
  boolean: "must be true or false",
  array: "must be an array",
  object: "must be an object",
  record: "must be an object",
};

/** For a key of a configuration file. */
export const messageFor = messageIn(TOML_TYPES);
/** For a field of JSON that somebody sent. */
export const messageForJson = messageIn(JSON_TYPES);

/** So much of a field's name is enough to find it; its sender has chosen it. */
const NAME_MAX = 64;

/** The first problem of JSON that was checked with `messageForJson`, as `details.price: is missing`; `whole` names the JSON. */
export function firstProblem({ issues }: z.ZodError, whole: string): string {
  const [first] = issues.flatMap(problemsOf);
  const name = first?.path.join(".") || whole;
  const short = name.length > NAME_MAX ? `${name.slice(0, NAME_MAX)}...` : name;
  return `${short}: ${first?.message ?? "is malformed"}`;
}

const SIZED: readonly string[] = ["string", "array"];

function tooFew(minimum: number | bigint): string {
  return minimum === 1 || minimum === 1n ? "is empty" : `is shorter than ${minimum}`;
}

/** Says of a key what it must be, or that it is missing. */
export function mustBe(what: string, input: unknown): string {
  return `${input === undefined ? "is missing: it " : ""}must be ${what}`;
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
