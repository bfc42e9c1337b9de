import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Context,
  type Attributes as OtelAttributes,
  type Span as OtelSpan,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BasicTracerProvider,
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
} from "@opentelemetry/sdk-trace-base";
import { AppError } from "../errors/app-error.ts";
import type { Env } from "../lifecycle/environment.ts";
import { createEventCounter } from "../log/event-counter.ts";
import type { Logger } from "../log/logger.ts";
import { within } from "../time/clock.ts";
import type { Attributes, Span, Tracer } from "./tracer.ts";

export type TracesOptions = {
  env: Env;
  /** Service name, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES sets another. */
  service: string;
  release: string;
  log: Logger;
};

/** Longest wait in ms for the collector to take the last spans at shutdown. */
const LAST_SPANS_MS = 2000;
const VALUE_CHARS_MAX = 256;

const KINDS = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
};

/** Creates a tracer with OpenTelemetry's SDK. OpenTelemetry's standard environment variables configure it. */
export function createOtelTracer({ env, service, release, log }: TracesOptions) {
  const provider = new BasicTracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ "service.name": service, "service.version": release }))
      .merge(detectResources({ detectors: [envDetector] })),
    sampler: ignoringRemoteFlag(samplerOf(env)),
    spanProcessors: [new BatchSpanProcessor(loggingFailures(new OTLPTraceExporter(), log))],
  });
  const otel = provider.getTracer("postern", release);
  const spans = new AsyncLocalStorage<OtelBackedSpan>();
  const toOtel = attributesFilter(env);
  const tracer: Tracer = {
    start({ kind, name, attributes, parent, isLinked = false }) {
      const context = parent === undefined ? undefined : contextOf(parent);
      const around = context ?? spans.getStore()?.context;
      const span = otel.startSpan(
        name,
        {
          kind: KINDS[kind],
          attributes: toOtel(attributes),
          ...(isLinked && context !== undefined && { links: [{ context }] }),
        },
        around === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, around),
      );
      return new OtelBackedSpan(span, toOtel);
    },
    current: () => spans.getStore(),
    run: (span, work) => spans.run(span as OtelBackedSpan, work),
  };
  const close = async () => {
    const ended = provider.shutdown();
    ended.catch(() => {});
    await within(LAST_SPANS_MS, ended).catch(() => {});
  };
  return { tracer, close };
}

type ToOtel = (attributes: Attributes) => OtelAttributes;

class OtelBackedSpan implements Span {
  readonly context: SpanContext;
  readonly #span: OtelSpan;
  readonly #toOtel: ToOtel;
  #isFailed = false;

  constructor(span: OtelSpan, toOtel: ToOtel) {
    this.#span = span;
    this.#toOtel = toOtel;
    this.context = span.spanContext();
  }

  get traceparent(): string {
    const { traceId, spanId, traceFlags } = this.context;
    return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(this.#toOtel(attributes));
  }

  fail(code: string): void {
    if (this.#isFailed) return;
    this.#isFailed = true;
    this.#span.setAttribute("error.type", code);
    this.#span.setStatus({ code: SpanStatusCode.ERROR });
  }

  end(): void {
    this.#span.end();
  }
}

/** Reads a well-formed traceparent. An id in it may be all zeros, which is invalid; the SDK then begins a new trace. */
function contextOf(traceparent: string): SpanContext {
  const [, traceId = "", spanId = "", flags = ""] = traceparent.split("-");
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
}

/**
 * Creates the function that converts attributes for the SDK. It drops the attributes `messaging.*`, unless
 * OTEL_SEMCONV_STABILITY_OPT_IN enables them: OpenTelemetry may still change their names.
 */
function attributesFilter({ OTEL_SEMCONV_STABILITY_OPT_IN: optIn = "" }: Env): ToOtel {
  const hasMessaging = optIn.split(",").some((word) => /^messaging(\/dup)?$/.test(word.trim()));
  return (attributes) => {
    const kept: OtelAttributes = {};
    for (const name in attributes) {
      const value = attributes[name];
      if (value === undefined || (!hasMessaging && name.startsWith("messaging."))) continue;
      kept[name] = typeof value === "string" ? value.slice(0, VALUE_CHARS_MAX) : value;
    }
    return kept;
  };
}

/**
 * Wraps a sampler, which decides whether a span is recorded. A request may bring a trace context with a flag that says
 * whether its client records the trace. For a server span, the wrapped sampler ignores this flag, as if the span began
 * the trace. With the flag, a stranger could fill the collector or hide a request. The client still chooses the trace
 * id. All later spans of the request follow the decision for the server span.
 */
function ignoringRemoteFlag(sampler: Sampler): Sampler {
  return {
    shouldSample(context: Context, ...about) {
      const [, , kind] = about;
      return sampler.shouldSample(kind === SpanKind.SERVER ? ROOT_CONTEXT : context, ...about);
    },
    toString: () => `Edge{${sampler}}`,
  };
}

const SAMPLERS: Readonly<Record<string, (ratio: number) => Sampler>> = {
  always_on: () => new AlwaysOnSampler(),
  always_off: () => new AlwaysOffSampler(),
  traceidratio: (ratio) => new TraceIdRatioBasedSampler(ratio),
  parentbased_always_on: () => new ParentBasedSampler({ root: new AlwaysOnSampler() }),
  parentbased_always_off: () => new ParentBasedSampler({ root: new AlwaysOffSampler() }),
  parentbased_traceidratio: (ratio) => new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) }),
};

/** Returns the configured sampler. Throws `start.config_invalid`. */
function samplerOf({ OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: arg }: Env): Sampler {
  const make = SAMPLERS[name || "parentbased_always_on"];
  const ratio = Number(arg || 1);
  const invalid = (reason: string) => new AppError("start.config_invalid", { reason });
  if (make === undefined)
    throw invalid(`OTEL_TRACES_SAMPLER: must be one of ${Object.keys(SAMPLERS).join(", ")}`);
  if (!(ratio >= 0 && ratio <= 1)) throw invalid("OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1");
  return make(ratio);
}

/** Logs failed exports. The SDK silently drops spans that it cannot send. */
function loggingFailures(exporter: SpanExporter, log: Logger): SpanExporter {
  const failures = createEventCounter(log, "traces.export_failed", "warn");
  return {
    export(spans: ReadableSpan[], done) {
      exporter.export(spans, (result) => {
        // The error's message is not logged, because it may contain the endpoint with a credential.
        if (result.code !== 0) failures.count("", { reason: "the collector did not take a batch of spans" });
        done(result);
      });
    },
    async shutdown() {
      failures.flush();
      await exporter.shutdown();
    },
  };
}
