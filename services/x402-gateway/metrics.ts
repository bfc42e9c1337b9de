import { registerPressure } from "../../shared/ingress/backpressure.ts";
import { createAddDuration, createHttpMeters } from "../../shared/ingress/http-metrics.ts";
import { createUnresolved, type Unresolved } from "../../shared/payments/list.ts";
import type { Meter } from "../../shared/platform/log/metered.ts";
import type { Metrics } from "../../shared/platform/metrics/metrics.ts";
import { registerRates } from "../../shared/pricing/rates/rates.ts";
import { redisClock } from "../../shared/redis/clock.ts";
import type { Partitions } from "../../shared/redis/partition.ts";
import type { ComposedGateway } from "./gateway.ts";

/** Creates the metrics that the gateway's log events increase. Each member handles the event of its name. */
export function createMeters(metrics: Metrics): Record<string, Meter> {
  const answered = metrics.counter("postern_payments_total", "Paid requests answered, by outcome", ["code"]);
  const challenged = metrics.counter(
    "postern_payment_challenges_total",
    "Requests answered with 402 and offers",
  );
  const replayed = metrics.counter("postern_payments_replayed_total", "Repeated payments");
  const duration = metrics.duration(
    "postern_payment_duration_seconds",
    "Time from a paid request to its answer",
    ["code"],
  );
  const add = createAddDuration(metrics);
  const settles = metrics.counter("postern_settle_total", "Settle requests, by outcome", ["outcome"]);
  const settle = metrics.duration("postern_settle_duration_seconds", "Time of a settle request", ["outcome"]);
  const reconciled = metrics.counter(
    "postern_payments_reconciled_total",
    "Open payments reconciled, by result",
    ["result"],
  );
  const countResult = (result: string): Meter => {
    return () => reconciled.inc({ result });
  };
  return {
    ...createHttpMeters(metrics),
    "payment.challenged": ({ times }) => challenged.inc(Number(times)),
    "payment.accepted": ({ replayed: known, addMs, ms }) => {
      answered.inc({ code: "accepted" });
      if (known === true) replayed.inc();
      duration.observeMs({ code: "accepted" }, Number(ms));
      if (addMs !== undefined) add.observeMs({}, Number(addMs));
    },
    "payment.refused": ({ code, times, ms }) => {
      answered.inc({ code: String(code) }, Number(times));
      duration.observeMs({ code: String(code) }, Number(ms));
    },
    "payment.settle_answered": ({ outcome, ms }) => {
      settles.inc({ outcome: String(outcome) });
      settle.observeMs({ outcome: String(outcome) }, Number(ms));
    },
    "payment.reconciled": countResult("settled"),
    "payment.void": countResult("void"),
    "payment.in_review": countResult("review"),
    "payment.disputed": countResult("contradicted"),
    "payment.reorged": countResult("vanished"),
    "payment.token_unknown": countResult("token_unknown"),
    "payment.facilitator_unknown": countResult("facilitator_unknown"),
    "payment.call_missing": countResult("call_missing"),
  };
}

/** Registers the gauges of the gateway's queue, of the tokens' rates, and of the payments without an end. */
export function registerGauges(
  metrics: Metrics,
  generations: { readonly current: Pick<ComposedGateway, "pressures" | "rates" | "servers"> },
  partitions: Partitions,
): void {
  registerPressure(metrics, "x402", () => generations.current.pressures());
  registerRates(metrics, () => generations.current.rates());
  registerUnresolved(metrics, partitions, () => generations.current.servers);
}

/**
 * Registers the gauges of payments without an end. Their values are read from the journal of each partition at each scrape. If
 * the journal of a partition cannot be read, the gauges have no values for that partition.
 */
function registerUnresolved(
  metrics: Metrics,
  partitions: Partitions,
  servers: () => ComposedGateway["servers"],
): void {
  const reads = partitions.map(createUnresolved).all;
  const { now } = redisClock(partitions.control.redis);
  const count = metrics.gauge("postern_payments", "Payments that wait for an end, by state", [
    "state",
    "partition",
  ]);
  const age = metrics.gauge(
    "postern_payment_unresolved_age_seconds",
    "Age of the oldest of these payments, by state",
    ["state", "partition"],
  );
  metrics.beforeScrape(async () => {
    const readOne = async (read: (typeof reads)[number], partition: number): Promise<Partial<Unresolved>> =>
      servers()[partition]?.isUsable === true ? read().catch(() => ({})) : {};
    const found = await Promise.all(reads.map(readOne));
    count.reset();
    age.reset();
    for (const [partition, unresolved] of found.entries())
      for (const [state, { payments, oldestAt }] of Object.entries(unresolved)) {
        count.set({ state, partition }, payments);
        const ageMs = oldestAt === undefined ? 0 : Math.max(0, now() - oldestAt);
        age.set({ state, partition }, ageMs / 1000);
      }
  });
}
