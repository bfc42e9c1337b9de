import type { z } from "zod";
import type { Role } from "../../config/operator-toml.ts";
import { firstProblem, messageForJson } from "../../config/problem.ts";
import { AppError } from "../../platform/errors/app-error.ts";
import type { ErrorCode } from "../../platform/errors/codes.ts";
import type { AuditAction } from "../../redis/audit/actions.ts";

/**
 * An operation of the console, described once. Its route, its part of the OpenAPI document, the page's types and the command line's client
 * derive from it.
 */
export type Operation = {
  method: "GET" | "POST" | "DELETE";
  /** With the names of its parameters in braces. */
  path: `/${string}`;
  /** The least role of a client. */
  role: Role | "anybody";
  summary: string;
  params?: z.ZodObject;
  query?: z.ZodObject;
  body?: z.ZodType;
  /** The answer: JSON of a schema, or a file or a stream of a content type. Without any of them it is 204. */
  answer?: z.ZodType;
  file?: string;
  stream?: string;
  /** Describes the answer in the OpenAPI document. */
  says: string;
  /** The status of a good answer, if it is neither 200 nor 204. */
  status?: 201 | 202;
  /** The header `Location`, with members of the answer in braces. */
  location?: `/${string}`;
  /** Whether it sets or deletes the cookie of a session. */
  setsCookie?: true;
  /** Whether it reads so much that only some may do it at once. Files have a limit of their own. */
  isHeavy?: boolean;
  /** The lines of the audit that it leaves. */
  audit?: readonly AuditAction[];
  /** The codes with which it refuses, beside those that any operation has. */
  problems?: readonly ErrorCode[];
};

export type Table = Readonly<Record<string, Operation>>;

/** A file whose bytes a stranger may have written. */
export type File = {
  name: string;
  pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
};

/** The whole of a file. */
export async function bytesOf({ pieces }: File): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  const [only] = all;
  return all.length === 1 && only instanceof Buffer ? only : Buffer.concat(all);
}

type Input<Schema> = Schema extends z.ZodType ? z.input<Schema> : unknown;
type Output<Schema> = Schema extends z.ZodType ? z.output<Schema> : unknown;

/** The input of one part of the request. */
export type AskedIn<Op, Part extends "params" | "query" | "body"> = Input<Field<Op, Part>>;
/** The input of an operation: the members of its path, its query and its body together. */
export type AskedOf<Op> = AskedIn<Op, "params"> & AskedIn<Op, "query"> & AskedIn<Op, "body">;
/** The input after its check, with its defaults. */
export type CheckedOf<Op> = Output<Field<Op, "params">> &
  Output<Field<Op, "query">> &
  Output<Field<Op, "body">>;

type Field<Op, Name extends string> = Name extends keyof Op ? Op[Name] : undefined;

export type AnswerOf<Op> = Op extends { answer: infer Answer extends z.ZodType }
  ? z.output<Answer>
  : Op extends { file: string }
    ? File
    : unknown;

/** The implementation of each operation. The compiler demands every one. */
export type Handlers<Of, Context> = {
  [Name in keyof Of]: (asked: CheckedOf<Of[Name]>, context: Context) => Promise<AnswerOf<Of[Name]>>;
};

/** The interface to the operations, wherever they are done. */
export type Client<Of> = {
  [Name in keyof Of]: (
    ...asked: Record<never, never> extends AskedOf<Of[Name]>
      ? [asked?: AskedOf<Of[Name]>, work?: Work]
      : [asked: AskedOf<Of[Name]>, work?: Work]
  ) => Promise<AnswerOf<Of[Name]>>;
};

/** The status of a good answer. */
export function statusOf({ status, answer, file, stream }: Operation): number {
  return status ?? (answer === undefined && file === undefined && stream === undefined ? 204 : 200);
}

/** `signal` is aborted once the client has gone. */
export type Work = { signal?: AbortSignal | undefined };

export type Parts = { params: Members; query: Members; body: unknown };
type Members = Readonly<Record<string, unknown>>;

/** Checks a part of the input. Throws `request.malformed`, or `request.not_found` for a path that names nothing. */
export function checked(operation: Operation, part: keyof Parts, value: unknown): object {
  const schema = operation[part];
  if (schema === undefined) {
    if (part !== "query" || Object.keys(value as object).length === 0) return {};
    throw AppError.public("request.malformed", "this route has no query parameters");
  }
  const result = schema.safeParse(value, { error: messageForJson });
  if (result.success) return result.data as object;
  const detail = firstProblem(result.error, part === "params" ? "path" : part);
  throw AppError.public(part === "params" ? "request.not_found" : "request.malformed", detail);
}

/** Splits the input of an operation into its path, its query and its body. */
export function partsOf({ path, body }: Operation, asked: Members = {}): Parts {
  const given = Object.entries(asked).filter(([, value]) => value !== undefined);
  const inPath = ([name]: [string, unknown]) => path.includes(`{${name}}`) || path.includes(`{${name}+}`);
  const rest = Object.fromEntries(given.filter((each) => !inPath(each)));
  return {
    params: Object.fromEntries(given.filter(inPath)),
    ...(body === undefined ? { query: rest, body: undefined } : { query: {}, body: rest }),
  };
}

/** The operations of these handlers, done in this process. */
export function clientOf<Of extends Table>(table: Of, handlers: Handlers<Of, Work>): Client<Of> {
  const client = Object.entries(table).map(([name, operation]) => {
    const handle = handlers[name as keyof Of] as (asked: unknown, work: Work) => Promise<unknown>;
    const ask = async (asked?: Members, work: Work = {}) => {
      const parts = partsOf(operation, asked);
      const names = ["params", "query", "body"] as const;
      return handle(Object.assign({}, ...names.map((part) => checked(operation, part, parts[part]))), work);
    };
    return [name, ask] as const;
  });
  return Object.fromEntries(client) as unknown as Client<Of>;
}
