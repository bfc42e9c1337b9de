import { registerPressure } from "../../shared/gateway/pressure-gauges.ts";
import type { Metrics } from "../../shared/metrics/metrics.ts";
import { createUnresolved } from "../../shared/payments/unresolved.ts";
import { registerRates } from "../../shared/pricing/rates/rates.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import { systemClock } from "../../shared/time/clock.ts";
import type { X402Gateway } from "./gateway.ts";

/** Gauges of the queue behind the gateway, of its tokens' rates and of the payments that wait for an end. */
export function registerGauges(
  metrics: Metrics,
  { pressure, rates }: Pick<X402Gateway, "pressure" | "rates">,
  redis: Redis,
): void {
  registerPressure(metrics, "x402", pressure);
  registerRates(metrics, rates);
  registerUnresolved(metrics, redis);
}

/** Read from the journal at each scrape; absent while it cannot be read. */
function registerUnresolved(metrics: Metrics, redis: Redis): void {
  const readUnresolved = createUnresolved(redis);
  const count = metrics.gauge("postern_payments", "Payments that wait for an end, by state", ["state"]);
  const age = metrics.gauge(
    "postern_payment_unresolved_age_seconds",
    "Age of the oldest payment that waits for an end, by state",
    ["state"],
  );
  metrics.beforeScrape(async () => {
    const unresolved = await readUnresolved().catch(() => ({}));
    count.reset();
    age.reset();
    for (const [state, { payments, oldestAt }] of Object.entries(unresolved)) {
      count.set({ state }, payments);
      age.set({ state }, oldestAt === undefined ? 0 : Math.max(0, systemClock() - oldestAt) / 1000);
    }
  });
}
