import type { Meter, Metrics } from "../../shared/metrics/metrics.ts";

/** What the engine's events add to its metrics. */
export function createMeters(metrics: Metrics): Record<string, Meter> {
  const asked = metrics.counter("postern_pricing_quotes_total", "Requests for a price, by outcome", ["code"]);
  return {
    "quote.issued": () => asked.inc({ code: "issued" }),
    "quote.refused": ({ code }) => asked.inc({ code: String(code) }),
  };
}
