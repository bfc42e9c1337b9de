import type { Meter, Metrics } from "../../shared/metrics/metrics.ts";

/** How the producer's log events change its metrics. */
export function createMeters(metrics: Metrics): Record<string, Meter> {
  const outcomes = metrics.counter("postern_inject_total", "Attempts to inject a call, by outcome", [
    "origin",
    "outcome",
  ]);
  const failures = metrics.counter("postern_inject_failures_total", "Failed attempts, by error code", [
    "origin",
    "code",
  ]);
  const inject = metrics.duration("postern_inject_duration_seconds", "Time the runner took for a call", [
    "origin",
  ]);
  const endToEnd = metrics.duration("postern_call_end_to_end_seconds", "From accepted to injected", [
    "origin",
  ]);
  const takenBack = metrics.counter("postern_calls_taken_back_total", "Calls whose worker went silent", [
    "origin",
  ]);
  const failed = (outcome: string): Meter => {
    return ({ origin, code }) => {
      outcomes.inc({ origin: String(origin), outcome });
      failures.inc({ origin: String(origin), code: String(code) });
    };
  };
  return {
    "call.injected": ({ origin, injectMs, endToEndMs }) => {
      const labels = { origin: String(origin) };
      outcomes.inc({ ...labels, outcome: "injected" });
      inject.observeMs(labels, Number(injectMs));
      endToEnd.observeMs(labels, Number(endToEndMs));
    },
    "call.delayed": failed("delayed"),
    "call.failed": failed("failed"),
    "call.taken_back": ({ origin }) => takenBack.inc({ origin: String(origin) }),
  };
}
