import { parseBoundedJson } from "../text/bounded-json.ts";
import { type Check, compileSchema, type JsonSchema, type Mismatch } from "./json-schema.ts";

/** What a job takes, as it declares it. */
export type JobInput = {
  schema: JsonSchema;
  /** A value that fits. */
  example: unknown;
  /** What in a body does not fit; undefined if it fits. */
  mismatch(body: Uint8Array): Mismatch | undefined;
};

/** A larger schema, or example, is refused. */
export const INPUT_BYTES_MAX = 64 * 1024;

type Problem = { of: "schema" | "example"; message: string };

/** What in a body is no JSON, or does not fit. */
export function mismatchIn(body: Uint8Array, check: Check): Mismatch | undefined {
  const parsed = parseBoundedJson(body);
  return parsed.ok ? check(parsed.value, body.length) : { pointer: "#", what: parsed.problem };
}

/** The input that a schema and an example declare, or what is wrong with one of them. */
export function toJobInput(
  schema: unknown,
  example: unknown,
): { ok: true; input: JobInput } | { ok: false; problem: Problem } {
  const compiled = compileSchema(schema);
  if (!compiled.ok) return { ok: false, problem: { of: "schema", message: compiled.problem } };
  const mismatch = (body: Uint8Array) => mismatchIn(body, compiled.check);
  if (example === undefined) return { ok: false, problem: { of: "example", message: "is missing" } };
  const unfit = mismatch(Buffer.from(JSON.stringify(example)));
  if (unfit !== undefined) {
    const message = `does not match the schema: ${unfit.pointer} ${unfit.what}`;
    return { ok: false, problem: { of: "example", message } };
  }
  return { ok: true, input: { schema: compiled.schema, example, mismatch } };
}
