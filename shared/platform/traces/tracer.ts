/** Attributes of a span. Texts have at most 256 characters, and never contain a body, a query or a credential. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

export type Span = {
  /** W3C trace context of this span. It is sent to another process, whose spans then continue the trace. */
  readonly traceparent: string;
  set(attributes: Attributes): void;
  /** Marks the span as failed with a code; later codes are ignored. The span must still be ended. */
  fail(code: string): void;
  end(): void;
};

type SpanOptions = {
  kind: "server" | "client" | "producer" | "consumer";
  name: string;
  attributes: Attributes;
  /** Traceparent of the parent span. Without it, the current span is the parent. */
  parent?: string | undefined;
  /** If true, the span gets a span link to `parent`, in addition to being its child. */
  isLinked?: boolean;
};

export type Tracer = {
  start(options: SpanOptions): Span;
  /** Returns the span of the innermost `run` around the caller. */
  current(): Span | undefined;
  run<Result>(span: Span, work: () => Result): Result;
};

/** Tracer of this process. Undefined if tracing is off, so that `tracer?.start(...)` then costs only a check. */
export let tracer: Tracer | undefined;

export function setTracer(given: Tracer | undefined): void {
  tracer = given;
}

/** Runs work with this span as the current one, and ends the span afterwards. */
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

/**
 * Returns the error's code, or its name if it has no code. The message is left out, because it may contain an
 * address.
 */
function codeOf(error: unknown): string {
  const { code, name = "Error" } = (error ?? {}) as { code?: unknown; name?: string };
  return typeof code === "string" ? code : name;
}
