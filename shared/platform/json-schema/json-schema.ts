import { createRequire } from "node:module";
import type { ErrorObject, ValidateFunction } from "ajv";
import { messageOf } from "../errors/app-error.ts";
import { cut } from "../text/cut.ts";
import { runBounded } from "./run-bounded.ts";

export type JsonSchema = Readonly<Record<string, unknown>>;

/** The first thing in a value that does not fit. */
export type Mismatch = {
  /** Where, as a fragment with a JSON Pointer (RFC 6901, section 6): `#/items/0`. */
  pointer: string;
  /** A sentence without the place, which quotes no value. */
  what: string;
};

/** Finds what in a value does not fit; undefined if it fits. `bytes` is about how large it is as JSON. */
export type Check = (value: unknown, bytes: number) => Mismatch | undefined;

/**
 * Compiles a schema of JSON Schema 2020-12, or of draft-07 if its `$schema` says so; the result is the check, or the problem as the rest
 * of a sentence. A keyword that the dialect does not know is a problem, since it would check nothing. Nothing is read from elsewhere, and
 * `format` checks nothing.
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
  /** A name that every object inherits, as `constructor`, is none of its properties. */
  ownProperties: true,
  logger: false,
} as const;

type Compiler = { compile(schema: JsonSchema): ValidateFunction };

const compilers = new Map<Dialect, Compiler>();

/** One for all schemas of a dialect, unless they name themselves: ajv remembers names, and would resolve those of another schema. */
function compilerFor(dialect: Dialect, text: string): Compiler {
  if (text.includes('"$id"')) return newCompiler(dialect);
  const compiler = compilers.get(dialect) ?? newCompiler(dialect);
  compilers.set(dialect, compiler);
  return compiler;
}

/** ajv takes a while to load, and most configurations have no schema. */
const load = createRequire(import.meta.url);

function newCompiler(dialect: Dialect): Compiler {
  if (dialect === "draft-07") {
    const { Ajv } = load("ajv") as typeof import("ajv");
    return new Ajv(OPTIONS);
  }
  const { Ajv2020 } = load("ajv/dist/2020.js") as typeof import("ajv/dist/2020.js");
  return new Ajv2020({ ...OPTIONS, keywords: ["$anchor"] }); // it resolves anchors, and yet does not know the keyword
}

function compileProblem(error: unknown): string {
  const { missingRef } = error as { missingRef?: unknown };
  if (typeof missingRef === "string")
    return `refers to ${missingRef}, which it does not contain; other documents are not loaded`;
  return `does not compile (${messageOf(error)})`;
}

/** So long one check may take. */
const CHECK_MS = 100;
/** What may take more time than the sizes of schema and value multiplied: backtracking, recursion, and pairs of items. */
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
  // The last one is about the alternatives as a whole; of a condition the first says more.
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

/** A pointer that is too long to be told is that of the nearest object or list around the place. */
function fragment(pointer: string): string {
  const encoded = pointer.replace(/[^A-Za-z0-9\-._~/!$&'()*+,;=:@]/gu, (letter) =>
    Buffer.from(letter).toString("hex").toUpperCase().replace(/../g, "%$&"),
  );
  const cut = encoded.lastIndexOf("/", POINTER_MAX);
  return `#${encoded.length <= POINTER_MAX ? encoded : encoded.slice(0, Math.max(0, cut))}`;
}
