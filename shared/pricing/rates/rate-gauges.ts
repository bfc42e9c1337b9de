import type { Metrics } from "../../metrics/metrics.ts";
import type { ObservedRate } from "./rates.ts";

/** Gauges of each token's rate; the value is there only while the rate is young enough to be used. */
export function registerRates(metrics: Metrics, observed: () => readonly ObservedRate[]): void {
  const labels = ["network", "asset", "symbol"] as const;
  const value = metrics.gauge("postern_rate_value", "Tokens for 10^18 wei, while that is known", labels);
  const age = metrics.gauge("postern_rate_age_seconds", "Age of the last good rate; 0 if fixed", labels);
  metrics.beforeScrape(() => {
    value.reset();
    age.reset();
    for (const { network, asset, symbol, ...rate } of observed()) {
      if (rate.value !== undefined) value.set({ network, asset, symbol }, Number(rate.value));
      if (rate.ageMs !== undefined) age.set({ network, asset, symbol }, rate.ageMs / 1000);
    }
  });
}
