import type { z } from "zod";
import type { Role } from "../../config/operator-toml.ts";
import { firstProblem, messageForJson } from "../../config/problem.ts";
import { AppError } from "../../platform/errors/app-error.ts";
import type { ErrorCode } from "../../platform/errors/codes.ts";
import type { AuditAction } from "../../redis/audit/actions.ts";

/**
 * Describes one operation of the console. From this description derive its route, its part of the OpenAPI document, the
 * types of the page, and the client of the commands.
 */
export type Operation = {
  method: "GET" | "POST" | "DELETE";
  /** Path, with parameters in braces. A parameter whose name ends with `+` may have several segments. */
  path: `/${string}`;
  /** Role that a client needs at least. With `anybody`, a client needs no authentication. */
  role: Role | "anybody";
  summary: string;
  params?: z.ZodObject;
  query?: z.ZodObject;
  body?: z.ZodType;
  /**
   * Schema of the JSON answer. `file` and `stream` are the content types of other answers. If all three are absent, the
   * status is 204.
   */
  answer?: z.ZodType;
  file?: string;
  stream?: string;
  /** Description of the answer in the OpenAPI document. */
  answerText: string;
  /** Status of a successful answer, if it is neither 200 nor 204. */
  status?: 201 | 202;
  /**
   * Value of the header `Location` of the answer. Names in braces are replaced by the values of these fields of the
   * answer.
   */
  location?: `/${string}`;
  /** Whether the answer sets or deletes the session's cookie. */
  setsCookie?: true;
  /**
   * Whether requests for this operation are limited in number at one time, because each reads much data. Files have a
   * separate limit.
   */
  isHeavy?: boolean;
  /** Actions of the lines that the operation writes in the audit log. */
  audit?: readonly AuditAction[];
  /** Error codes that the operation may answer with, besides those that any operation has. */
  problems?: readonly ErrorCode[];
};

export type Table = Readonly<Record<string, Operation>>;

/** A file to download. Its bytes may come from an untrusted sender. */
export type File = {
  name: string;
  pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
};

/** Reads the whole file. */
export async function bytesOf({ pieces }: File): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  const [only] = all;
  return all.length === 1 && only instanceof Buffer ? only : Buffer.concat(all);
}

type Input<Schema> = Schema extends z.ZodType ? z.input<Schema> : unknown;
type Output<Schema> = Schema extends z.ZodType ? z.output<Schema> : unknown;

/** Input for one part of the request: for the path, the query or the body. */
export type PartInput<Op, Part extends "params" | "query" | "body"> = Input<Field<Op, Part>>;
/** Input of an operation: its parameters from the path, the query and the body, in one object. */
export type OperationInput<Op> = PartInput<Op, "params"> & PartInput<Op, "query"> & PartInput<Op, "body">;
/** Input after validation, with default values. */
export type CheckedInput<Op> = Output<Field<Op, "params">> &
  Output<Field<Op, "query">> &
  Output<Field<Op, "body">>;

type Field<Op, Name extends string> = Name extends keyof Op ? Op[Name] : undefined;

export type AnswerOf<Op> = Op extends { answer: infer Answer extends z.ZodType }
  ? z.output<Answer>
  : Op extends { file: string }
    ? File
    : unknown;

/** The functions that implement the operations, by name. The compiler reports a missing one. */
export type Handlers<Of, Context> = {
  [Name in keyof Of]: (asked: CheckedInput<Of[Name]>, context: Context) => Promise<AnswerOf<Of[Name]>>;
};

/** Client with a method for each operation. It calls the operation over HTTP or in this process. */
export type Client<Of> = {
  [Name in keyof Of]: (
    ...asked: Record<never, never> extends OperationInput<Of[Name]>
      ? [asked?: OperationInput<Of[Name]>, work?: Work]
      : [asked: OperationInput<Of[Name]>, work?: Work]
  ) => Promise<AnswerOf<Of[Name]>>;
};

/** Returns the status of a successful answer. */
export function statusOf({ status, answer, file, stream }: Operation): number {
  return status ?? (answer === undefined && file === undefined && stream === undefined ? 204 : 200);
}

/** `signal` is aborted when the client disconnects. */
export type Work = { signal?: AbortSignal | undefined };

export type Parts = { params: Members; query: Members; body: unknown };
type Members = Readonly<Record<string, unknown>>;

/**
 * Validates one part of the input. If it is invalid, throws `request.not_found` for the path and `request.malformed`
 * for the other parts.
 */
export function checkInput(operation: Operation, part: keyof Parts, value: unknown): object {
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

/** Splits the input of an operation into path, query and body. */
export function partsOf({ path, body }: Operation, asked: Members = {}): Parts {
  const given = Object.entries(asked).filter(([, value]) => value !== undefined);
  const inPath = ([name]: [string, unknown]) => path.includes(`{${name}}`) || path.includes(`{${name}+}`);
  const rest = Object.fromEntries(given.filter((each) => !inPath(each)));
  return {
    params: Object.fromEntries(given.filter(inPath)),
    ...(body === undefined ? { query: rest, body: undefined } : { query: {}, body: rest }),
  };
}

/** Returns a client that calls these handlers in this process. */
export function clientOf<Of extends Table>(table: Of, handlers: Handlers<Of, Work>): Client<Of> {
  const client = Object.entries(table).map(([name, operation]) => {
    const handle = handlers[name as keyof Of] as (asked: unknown, work: Work) => Promise<unknown>;
    const ask = async (asked?: Members, work: Work = {}) => {
      const parts = partsOf(operation, asked);
      const names = ["params", "query", "body"] as const;
      return handle(
        Object.assign({}, ...names.map((part) => checkInput(operation, part, parts[part]))),
        work,
      );
    };
    return [name, ask] as const;
  });
  return Object.fromEntries(client) as unknown as Client<Of>;
}
