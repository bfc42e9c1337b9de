import { type ZodType, z } from "zod";
import { AppError } from "../../shared/errors/app-error.ts";

/** Turns the bytes of a body into what a handler takes, or throws `runner.input_rejected`. */
export type Extractor<Input> = (request: { readonly body: Buffer }) => Input;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The bytes as received. */
export function bytes(): Extractor<Buffer> {
  return ({ body }) => body;
}

/** The body as text; refuses what is not UTF-8. */
export function text(): Extractor<string> {
  return ({ body }) => decode(body);
}

/** The body as JSON, whatever its Content-Type, checked by the schema. */
export function json<Input>(schema: ZodType<Input>): Extractor<Input> {
  return ({ body }) => toValid(schema, parse(decode(body)), "body");
}

/** The value as the schema gives it; refuses with what the schema says. */
export function toValid<Value>(schema: ZodType<Value>, value: unknown, what: string): Value {
  const result = schema.safeParse(value);
  if (!result.success) throw rejected(`${what}: ${z.prettifyError(result.error)}`, result.error);
  return result.data;
}

function decode(body: Buffer): string {
  try {
    return utf8.decode(body);
  } catch (cause) {
    throw rejected("body: is not UTF-8", cause);
  }
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (cause) {
    throw rejected("body: is not JSON", cause);
  }
}

function rejected(detail: string, cause: unknown): AppError {
  return AppError.public("runner.input_rejected", detail, { cause });
}
