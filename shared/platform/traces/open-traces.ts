import { AppError } from "../errors/app-error.ts";
import type { Env } from "../lifecycle/environment.ts";
import { missingPackages } from "../lifecycle/optional-packages.ts";
import type { TracesOptions } from "./otel.ts";
import { setTracer } from "./tracer.ts";

const ENDPOINTS = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"] as const;
const PROTOCOLS = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] as const;
const PROTOCOL = "http/protobuf";

/**
 * Packages that the tracer needs and the user must install. `@opentelemetry/api` is not in the list, because Postern
 * bundles a copy of it.
 */
const PACKAGES = [
  "@opentelemetry/exporter-trace-otlp-proto",
  "@opentelemetry/resources",
  "@opentelemetry/sdk-trace-base",
];

/**
 * Starts tracing if an environment variable names the OTLP endpoint of a collector. The packages are loaded only then.
 * Resolves with a function that sends the last spans. Throws `start.config_invalid` and `start.package_missing`.
 */
export async function openTraces(options: TracesOptions): Promise<(() => Promise<void>) | undefined> {
  const { env } = options;
  const named = ENDPOINTS.find((name) => (env[name] ?? "") !== "");
  if (named === undefined || isOff(env)) return undefined;
  requireUsable(env, named);
  const missing = missingPackages(named, PACKAGES);
  if (missing !== undefined) throw missing;
  const { createOtelTracer } = await import("./otel.ts");
  const { tracer, close } = createOtelTracer(options);
  setTracer(tracer);
  return async () => {
    setTracer(undefined);
    await close();
  };
}

function isOff({ OTEL_SDK_DISABLED: disabled = "", OTEL_TRACES_EXPORTER: exporter }: Env): boolean {
  return disabled.toLowerCase() === "true" || exporter === "none";
}

function requireUsable(env: Env, named: string): void {
  const endpoint = env[named] ?? "";
  // No message repeats the value, because it may contain a credential.
  if (!/^https?:\/\//i.test(endpoint) || !URL.canParse(endpoint))
    throw new AppError("start.config_invalid", { reason: `${named}: must be an http or https URL` });
  const protocol = PROTOCOLS.find((name) => (env[name] ?? "") !== "");
  if (protocol === undefined || env[protocol] === PROTOCOL) return;
  throw new AppError("start.config_invalid", {
    reason: `${protocol}: must be "${PROTOCOL}", the only protocol that Postern sends traces by`,
  });
}
