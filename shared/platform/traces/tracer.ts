/** Values of at most 256 characters. Never a body, a query or a credential. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

export type Span = {
  /** Its W3C trace context, by which another process goes on with the trace. */
  readonly traceparent: string;
  set(attributes: Attributes): void;
  /** Marks it as failed, with a code; the first one counts. It must still be ended. */
  fail(code: string): void;
  end(): void;
};

type SpanOptions = {
  kind: "server" | "client" | "producer" | "consumer";
  name: string;
  attributes: Attributes;
  /** Traceparent of its parent. Without one, the parent is the current span. */
  parent?: string | undefined;
  /** Whether it also links to its parent. */
  isLinked?: boolean;
};

export type Tracer = {
  start(options: SpanOptions): Span;
  /** The span that `run` has made current for this work. */
  current(): Span | undefined;
  run<Result>(span: Span, work: () => Result): Result;
};

/** Undefined unless traces are on: `tracer?.start(...)` then costs one check. It is one for the process, as a failpoint is. */
export let tracer: Tracer | undefined;

export function setTracer(given: Tracer | undefined): void {
  tracer = given;
}

/** Does the work in its span, and ends that with it. */
export async function inSpan<Result>(span: Span | undefined, work: () => Promise<Result>): Promise<Result> {
  if (span === undefined || tracer === undefined) return work();
  try {
    return await tracer.run(span, work);
  } catch (error) {
    span.fail(codeOf(error));
    throw error;
  } finally {
    span.end();
  }
}

/** Ours, or Node's or a library's. Messages are left out: they may hold an address. */
function codeOf(error: unknown): string {
  const { code, name = "Error" } = (error ?? {}) as { code?: unknown; name?: string };
  return typeof code === "string" ? code : name;
}
