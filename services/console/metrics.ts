import { createHttpMeters } from "../../shared/ingress/http-metrics.ts";
import type { Meter } from "../../shared/platform/log/metered.ts";
import type { Metrics } from "../../shared/platform/metrics/metrics.ts";

/** Counts the console's events as metrics. */
export function createMeters(metrics: Metrics): Record<string, Meter> {
  const refused = metrics.counter("postern_operator_refused_total", "Requests refused, by code", ["code"]);
  const signedIn = metrics.counter("postern_operator_sessions_total", "Sessions started");
  return {
    ...createHttpMeters(metrics),
    "operator.refused": ({ code, times }) => refused.inc({ code: String(code) }, Number(times)),
    "operator.signed_in": () => signedIn.inc(),
  };
}
