import { type ZodType, z } from "zod";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";

export type Metadata = Readonly<Record<string, string>>;

/** A call as the runner received it. */
export type JobRequest = {
  readonly callId: string;
  readonly jobId: number;
  /** The body, exactly as it was received. */
  readonly body: Buffer;
  readonly contentType: string | undefined;
  /** The metadata headers, by upper-case name. If requests must be signed, the producer's signature covers them. */
  readonly metadata: Metadata;
  /** W3C trace context. Not signed: use it for tracing only. */
  readonly traceparent: string | undefined;
};

/** Values and functions that the runner passes to a handler in addition to the request. */
export type JobContext = {
  /** Number of the service that the call belongs to, if the call's metadata names one. */
  readonly serviceId: number | undefined;
  /** Aborted when the runner stops. The handler of a long job should then end early, because the job will run again. */
  readonly signal: AbortSignal;
  /** Logger whose lines name the call and the job. */
  readonly log: Logger;
  /**
   * Logs the progress of the job. If the runner delivers results of long jobs, clients that wait for the result also get the
   * progress. They get the newest message once a second, if it is at most 4 KiB as JSON.
   */
  progress(fields: Readonly<Record<string, unknown>>): void;
};

/** The one argument of a handler. */
export type Call<Input, Meta> = Omit<JobRequest, "metadata"> &
  JobContext & { readonly input: Input; readonly metadata: Meta };

/** Answer of a handler, by default with status 200. Only a 2xx answer is remembered and ends the call successfully. */
export type Answer =
  | { readonly status?: number; readonly contentType?: string; readonly body?: Uint8Array | string }
  | { readonly status?: number; readonly json: unknown };

/** An answer in the form in which it is sent. */
export type HttpAnswer = {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: Buffer;
  /** Set if the body of a remembered answer is no longer kept: the digest of that body. `body` is empty then. */
  readonly forgotten?: string;
};

/**
 * Converts the bytes of a body to the input of a handler, or throws `runner.input_rejected`. It is an object with a function,
 * and not the function itself. From a function, TypeScript would infer the type too late, and the handler's `input` would
 * have no type.
 */
export type Extractor<Input> = { readonly extract: (request: { readonly body: Buffer }) => Input };

type Shape<Input, Meta> = {
  name: string;
  /**
   * Converts the body to `input`. If there is no extractor, the handler gets only `body`. If the extractor refuses a body,
   * the answer is 422.
   */
  input?: Extractor<Input>;
  /** Validates `metadata` and gives it a type. */
  metadata?: ZodType<Meta>;
};

/** A job whose caller waits for the answer. */
export type ShortJob<Input = undefined, Meta = Metadata> = Shape<Input, Meta> & {
  long?: false;
  handler(call: Call<Input, Meta>): Answer | Promise<Answer>;
};

/**
 * A job whose caller gets a 202 once the call is stored. If the runner crashes or restarts before the handler has returned,
 * the job runs again. If the runner delivers results, the handler's answer is sent to a gateway as the call's result. A 4xx
 * status ends the call as failed, except for 408, 409, 425 and 429. After one of these, or any other status that is not 2xx,
 * the job runs again while it has attempts left.
 */
export type LongJob<Input = undefined, Meta = Metadata> = Shape<Input, Meta> & {
  long: true;
  // biome-ignore lint/suspicious/noConfusingVoidType: a handler may have no return at all
  handler(call: Call<Input, Meta>): Answer | void | Promise<Answer | void>;
};

/** A job as the runner sees it, for any types of input and metadata. */
export type Job = {
  readonly id: number;
  readonly name: string;
  readonly long: boolean;
  /** Extracts input and metadata; throws `runner.input_rejected`. The returned function runs the handler. */
  prepare(request: JobRequest): (context: JobContext) => Promise<Answer>;
};

export type Router = {
  /**
   * Adds the job that `POST /jobs/{id}` runs. Throws if the id is already used, or is not an integer from 0 to 2^53-1.
   */
  job<Input = undefined, Meta = Metadata>(
    id: number,
    job: ShortJob<Input, Meta> | LongJob<Input, Meta>,
  ): Router;
  find(id: number): Job | undefined;
  /** Every job, by id. */
  list(): readonly Job[];
};

/** Maps job ids to handlers. */
export function createRouter(): Router {
  const jobs = new Map<number, Job>();
  const router: Router = {
    job(id, definition) {
      if (!Number.isSafeInteger(id) || id < 0)
        throw new RangeError(`job id ${id}: must be an integer from 0 to 2^53-1`);
      if (jobs.has(id)) throw new Error(`job ${id} is defined twice`);
      jobs.set(id, toJob(id, definition));
      return router;
    },
    find: (id) => jobs.get(id),
    list: () => [...jobs.values()].sort((a, b) => a.id - b.id),
  };
  return router;
}

function toJob<Input, Meta>(id: number, definition: ShortJob<Input, Meta> | LongJob<Input, Meta>): Job {
  const { name, long = false, handler } = definition;
  return {
    id,
    name,
    long,
    prepare(request) {
      const input = definition.input?.extract(request) as Input;
      const metadata = definition.metadata
        ? toValid(definition.metadata, request.metadata, "metadata")
        : (request.metadata as Meta);
      return async (context) => (await handler({ ...request, ...context, input, metadata })) ?? {};
    },
  };
}

/** Extracts the body's bytes, exactly as they were received. */
export function bytes(): Extractor<Buffer> {
  return { extract: ({ body }) => body };
}

/** Extracts the body as text; refuses a body that is not UTF-8. */
export function text(): Extractor<string> {
  return { extract: ({ body }) => decode(body) };
}

/** Extracts the body as JSON, for any Content-Type, and validates it by the schema. */
export function json<Input>(schema: ZodType<Input>): Extractor<Input> {
  return { extract: ({ body }) => toValid(schema, parse(decode(body)), "body") };
}

/**
 * Returns the value as the schema outputs it. If the schema refuses the value, throws an error with the schema's own message.
 */
function toValid<Value>(schema: ZodType<Value>, value: unknown, what: string): Value {
  const result = schema.safeParse(value);
  if (!result.success) throw rejected(`${what}: ${z.prettifyError(result.error)}`, result.error);
  return result.data;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decode(body: Buffer): string {
  try {
    return utf8.decode(body);
  } catch (cause) {
    throw rejected("body: must be UTF-8", cause);
  }
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (cause) {
    throw rejected("body: must be JSON", cause);
  }
}

function rejected(detail: string, cause: unknown): AppError {
  return AppError.public("runner.input_rejected", detail, { cause });
}
