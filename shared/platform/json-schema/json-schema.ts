import { createRequire } from "node:module";
import type { ErrorObject, ValidateFunction } from "ajv";
import { messageOf } from "../errors/app-error.ts";
import { cut } from "../text/cut.ts";
import { runBounded } from "./run-bounded.ts";

export type JsonSchema = Readonly<Record<string, unknown>>;

/** First mismatch between a value and a schema. */
export type Mismatch = {
  /** Position as a URI fragment with a JSON Pointer (RFC 6901, section 6): `#/items/0`. */
  pointer: string;
  /** Sentence about the mismatch. It contains neither the position nor the value. */
  what: string;
};

/**
 * Returns the first mismatch of a value; undefined if the value matches. `bytes` is the approximate size of the value
 * as JSON.
 */
export type Check = (value: unknown, bytes: number) => Mismatch | undefined;

/**
 * Compiles a schema of JSON Schema 2020-12, or of draft-07 if its `$schema` says so. Returns the check, or the problem
 * as the rest of a sentence that begins with the schema's name. A keyword that the dialect does not know is a problem:
 * it would check nothing, although its author expects a check. Remote schemas are never loaded, and `format` checks
 * nothing.
 */
export function compileSchema(
  schema: unknown,
): { ok: true; schema: JsonSchema; check: Check } | { ok: false; problem: string } {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema))
    return { ok: false, problem: "must be a JSON Schema object" };
  const its = schema as JsonSchema;
  const dialect = dialectOf(its);
  if (dialect === undefined)
    return { ok: false, problem: `has an unsupported $schema (supported: ${KNOWN})` };
  if (its["$async"] !== undefined)
    return { ok: false, problem: "must not contain $async, which JSON Schema does not define" };
  try {
    const text = JSON.stringify(its);
    const validate = compilerFor(dialect, text).compile(its);
    return { ok: true, schema: its, check: toCheck(validate, text) };
  } catch (error) {
    return { ok: false, problem: compileProblem(error) };
  }
}

type Dialect = "2020-12" | "draft-07";

const SCHEMA_URIS: Readonly<Record<string, Dialect>> = {
  "https://json-schema.org/draft/2020-12/schema": "2020-12",
  "http://json-schema.org/draft-07/schema": "draft-07",
};
const KNOWN = Object.keys(SCHEMA_URIS).join(", ");

function dialectOf({ $schema: uri = "https://json-schema.org/draft/2020-12/schema" }: JsonSchema) {
  return typeof uri === "string" ? SCHEMA_URIS[uri.replace(/#$/, "")] : undefined;
}

const OPTIONS = {
  strict: false,
  strictSchema: true,
  validateFormats: false,
  /** Names that every JavaScript object inherits, such as `constructor`, do not count as properties. */
  ownProperties: true,
  logger: false,
} as const;

type Compiler = { compile(schema: JsonSchema): ValidateFunction };

const compilers = new Map<Dialect, Compiler>();

/**
 * Returns a compiler for a schema of this dialect. Schemas without an `$id` share one compiler. A schema with an `$id`
 * gets its own. A compiler of ajv remembers ids, so a reference in another schema could otherwise resolve to this
 * schema.
 */
function compilerFor(dialect: Dialect, text: string): Compiler {
  if (text.includes('"$id"')) return newCompiler(dialect);
  const compiler = compilers.get(dialect) ?? newCompiler(dialect);
  compilers.set(dialect, compiler);
  return compiler;
}

/**
 * Loads the package ajv, which compiles schemas. It is loaded only when needed, because loading is slow and most
 * configurations have no schema.
 */
const load = createRequire(import.meta.url);

function newCompiler(dialect: Dialect): Compiler {
  if (dialect === "draft-07") {
    const { Ajv } = load("ajv") as typeof import("ajv");
    return new Ajv(OPTIONS);
  }
  const { Ajv2020 } = load("ajv/dist/2020.js") as typeof import("ajv/dist/2020.js");
  return new Ajv2020({ ...OPTIONS, keywords: ["$anchor"] }); // ajv resolves anchors, but does not know the keyword
}

function compileProblem(error: unknown): string {
  const { missingRef } = error as { missingRef?: unknown };
  if (typeof missingRef === "string")
    return `refers to ${missingRef}, which it does not contain; other documents are not loaded`;
  return `does not compile (${messageOf(error)})`;
}

/** Limit in ms on the time of one check. */
const CHECK_MS = 100;
/**
 * Keywords that may be slow to check, because their check backtracks, recurses or compares all pairs of items. The time
 * of a check without them is at most proportional to the size of the schema times the size of the value.
 */
const SLOW = /"(?:pattern|patternProperties|uniqueItems|\$ref|\$dynamicRef)"/;
const QUICK_PRODUCT_MAX = 2 ** 24;

function toCheck(validate: ValidateFunction, text: string): Check {
  const mayBeSlow = SLOW.test(text);
  return (value, bytes) => {
    const isQuick = !mayBeSlow && bytes * text.length <= QUICK_PRODUCT_MAX;
    const fits = isQuick ? validate(value) : runBounded(() => validate(value), CHECK_MS);
    if (fits === undefined) return { pointer: "#", what: "takes too long to check" };
    return fits ? undefined : toMismatch(validate.errors ?? []);
  };
}

function toMismatch(errors: readonly ErrorObject[]): Mismatch {
  // For `anyOf` or `oneOf`, the last error describes all alternatives together. For `if`, the first error is more
  // precise.
  const last = errors.at(-1);
  const error = last?.keyword === "if" ? errors[0] : last;
  const extra: unknown = error?.params["additionalProperty"] ?? error?.params["unevaluatedProperty"];
  const named = typeof extra === "string" ? `: ${JSON.stringify(shortened(extra, 64))}` : "";
  return {
    pointer: fragment(error?.instancePath ?? ""),
    what: `${shortened(error?.message ?? "does not match", 200)}${named}`,
  };
}

function shortened(text: string, most: number): string {
  return text.length > most ? `${cut(text, most)}...` : text;
}

const POINTER_MAX = 256;

/**
 * Encodes a JSON Pointer as a URI fragment. A pointer that is too long is shortened at a slash, so that it names an
 * object or list that contains the value.
 */
function fragment(pointer: string): string {
  const encoded = pointer.replace(/[^A-Za-z0-9\-._~/!$&'()*+,;=:@]/gu, (letter) =>
    Buffer.from(letter).toString("hex").toUpperCase().replace(/../g, "%$&"),
  );
  const cut = encoded.lastIndexOf("/", POINTER_MAX);
  return `#${encoded.length <= POINTER_MAX ? encoded : encoded.slice(0, Math.max(0, cut))}`;
}
