import { parseBoundedJson } from "../text/bounded-json.ts";
import { type Check, compileSchema, type JsonSchema, type Mismatch } from "./json-schema.ts";

/** JSON Schema of a job's input or output, and an example that satisfies it. */
export type Declared = { schema: JsonSchema; example: unknown };

/** Input that a job accepts, as the job declares it. */
export type JobInput = Declared & {
  /** Returns where a body does not match the schema; undefined if it matches. */
  mismatch(body: Uint8Array): Mismatch | undefined;
};

/**
 * Limit in bytes on the schemas and examples of a job's input and output together. A 402 answer contains them, and
 * clients return them in the header with the payment, in base64. With more, that header could exceed the 8 kB that
 * nginx accepts.
 */
export const DECLARED_BYTES_MAX = 2560;

/** Returns the bytes of a schema and its example as JSON. */
export function declaredBytes(declared: Declared | undefined): number {
  if (declared === undefined) return 0;
  const { schema, example } = declared;
  return Buffer.byteLength(JSON.stringify(schema)) + Buffer.byteLength(JSON.stringify(example));
}

/** Limit in bytes on a schema or an example. */
export const INPUT_BYTES_MAX = 64 * 1024;

type Problem = { of: "schema" | "example"; message: string };

/** Returns why a body is not JSON or does not match; undefined if it matches. */
export function mismatchIn(body: Uint8Array, check: Check): Mismatch | undefined {
  const parsed = parseBoundedJson(body);
  return parsed.ok ? check(parsed.value, body.length) : { pointer: "#", what: parsed.problem };
}

/** Compiles the schema of a job's input or output and checks the example with it. Returns the problem of either if there is one. */
export function compileDeclared(
  schema: unknown,
  example: unknown,
): { ok: true; compiled: JobInput } | { ok: false; problem: Problem } {
  const check = compileSchema(schema);
  if (!check.ok) return { ok: false, problem: { of: "schema", message: check.problem } };
  const mismatch = (body: Uint8Array) => mismatchIn(body, check.check);
  if (example === undefined) return { ok: false, problem: { of: "example", message: "is missing" } };
  const unfit = mismatch(Buffer.from(JSON.stringify(example)));
  if (unfit !== undefined) {
    const message = `does not match the schema: ${unfit.pointer} ${unfit.what}`;
    return { ok: false, problem: { of: "example", message } };
  }
  return { ok: true, compiled: { schema: check.schema, example, mismatch } };
}
