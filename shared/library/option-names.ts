import { type Problem, problem } from "../config/problem.ts";

/*
 * An option of code is a key of a configuration file in camelCase: `rateLimit: { perSecond: 50 }` is `rate_limit = { per_second = 50 }`.
 * So the files' rules check options, once these are a file's table, and what they find is said in the names of code again.
 */

/** Their own keys are names of the user's: of headers, jobs, runners. */
const RECORDS: readonly string[] = [
  "facilitatorHeaders",
  "headers",
  "jobs",
  "json",
  "require",
  "runners",
  "when",
];
/** All that is in them is the user's. */
const OPAQUE: readonly string[] = ["inputExample", "inputSchema"];

/** The options as the table of a configuration file. Options that are undefined are left out. */
export function toTable(options: unknown, name = ""): unknown {
  if (OPAQUE.includes(name)) return options;
  if (Array.isArray(options)) return options.map((each) => toTable(each));
  if (!isPlain(options)) return options;
  const isRecord = RECORDS.includes(name);
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    entries.map(([key, value]) => (isRecord ? [key, toTable(value)] : [toKey(key), toTable(value, key)])),
  );
}

/** Options in the spelling of the files. Without this they would be taken in silence. */
export function misspelt(options: unknown, name = "", path: readonly PropertyKey[] = []): Problem[] {
  if (OPAQUE.includes(name)) return [];
  if (Array.isArray(options)) return options.flatMap((each, index) => misspelt(each, "", [...path, index]));
  if (!isPlain(options)) return [];
  const isRecord = RECORDS.includes(name);
  return Object.entries(options).flatMap(([key, value]) => {
    const inner = misspelt(value, isRecord ? "" : key, [...path, key]);
    if (isRecord || !key.includes("_")) return inner;
    return [problem([...path, key], `unknown key; did you mean ${toOption(key)}?`), ...inner];
  });
}

/** The path of a table's key as that of the option that it was made of. */
export function toOptionPath(path: readonly PropertyKey[]): PropertyKey[] {
  const named: PropertyKey[] = [];
  for (const part of path) {
    const before = String(named.at(-1) ?? "");
    const isOwnName = RECORDS.includes(before) || named.some((each) => OPAQUE.includes(String(each)));
    named.push(typeof part === "string" && !isOwnName ? toOption(part) : part);
  }
  return named;
}

/** A warning about a file as one about options. */
export function toOptionWarning(warning: string): string {
  return toOptionWords(warning.replace(/^\w+\.toml: /, ""));
}

/** Values that rules name without quotes. */
const VALUES: readonly string[] = ["public_paid", "restricted_paid"];

/** A rule speaks of other keys, in the words of a file. What it quotes is a value. */
export function toOptionWords(message: string): string {
  return message
    .split(/("[^"]*")/)
    .map((text, index) => (index % 2 === 1 ? text : inWordsOfCode(text)))
    .join("");
}

function inWordsOfCode(text: string): string {
  return text
    .replace(/ (?:in|of) \w+\.toml\b/g, "")
    .replace(/\[\[(\w+)\]\]/g, "$1")
    .replace(/\bproducer\.(?=[a-z])/g, "")
    .replace(/unknown key/g, "unknown option")
    .replace(/\b(\w+) = /g, "$1: ")
    .replace(/\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b/g, (word) => (VALUES.includes(word) ? word : toOption(word)));
}

function toKey(option: string): string {
  return option.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

export function toOption(key: string): string {
  return key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
