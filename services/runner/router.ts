import { type ZodType, z } from "zod";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";

export type Metadata = Readonly<Record<string, string>>;

/** A call as the runner received it. */
export type JobRequest = {
  readonly callId: string;
  readonly jobId: number;
  /** The bytes as received. */
  readonly body: Buffer;
  readonly contentType: string | undefined;
  /** The metadata headers, by upper-case name. If requests must be signed, the producer's signature covers them. */
  readonly metadata: Metadata;
  /** W3C trace context. Not signed: use it for tracing only. */
  readonly traceparent: string | undefined;
};

/** Context that the runner passes to a handler with the request. */
export type JobContext = {
  /** The service that the call belongs to, if the metadata names one. */
  readonly serviceId: number | undefined;
  /** Aborted when the runner stops: a long job should end early and will be run again. */
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
  /** The digest of the body of the first answer, if the body is no longer kept; `body` is empty then. */
  readonly forgotten?: string;
};

/**
 * Turns the bytes of a body into the input of a handler, or throws `runner.input_rejected`. It is an object and not
 * a function, because TypeScript would infer from a function too late, and the handler's `input` would have no type.
 */
export type Extractor<Input> = { readonly extract: (request: { readonly body: Buffer }) => Input };

type Shape<Input, Meta> = {
  name: string;
  /**
   * Turns the body into `input`. Without this extractor the handler has only `body`. If the extractor refuses a body, the
   * answer is 422.
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
 * A job whose caller gets a 202 once the call is stored. The job runs until the handler returns, across crashes and restarts.
 * If its runner delivers results, the handler's answer is delivered. The call fails for good with a 4xx status other than 408,
 * 409, 425 and 429. After one of these, or any other status that is not 2xx, it runs again while it has attempts left.
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

/** Extracts the bytes as received. */
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

/** Returns the output of the schema; refuses with the schema's own message. */
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
