import { z } from "zod";
import { outsideOf } from "../config/rate-source.ts";
import type { AcceptedToken } from "../config/x402-toml.ts";
import { describeSource } from "../pricing/rates/registry.ts";
import { createSharedValue } from "../pricing/rates/shared-value.ts";
import { isLive, type LiveToken, type RateReading } from "../pricing/rates/source.ts";
import type { Partition } from "../redis/partition.ts";
import { count } from "./view.ts";

/**
 * A rate from one source, or the reason why the source has none. A rate is a decimal string: the number of tokens
 * that equal 10^18 wei.
 */
export const ReadingView = z.object({
  source: z.string(),
  value: z.string().nullable(),
  reason: z.string().nullable(),
  /** The rates from the single sources, if the value is the median of several. */
  get legs() {
    return z.array(ReadingView).optional();
  },
});

z.globalRegistry.add(ReadingView, { id: "RateReading" });

/** The rate of a token, and whether the token is offered to buyers at this rate. */
export const RateView = z
  .object({
    /** Network of the token, as a CAIP-2 id. */
    network: z.string(),
    asset: z.string(),
    symbol: z.string(),
    min_rate: z.string().nullable(),
    max_rate: z.string().nullable(),
    age_ms: count.nullable(),
    offered: z.boolean(),
    source: z.string(),
    value: z.string().nullable(),
    reason: z.string().nullable(),
    legs: z.array(ReadingView).optional(),
    /** Failure of a gateway's last attempt to read the rate; null if it succeeded. */
    last_failure: z.object({ reason: z.string(), age_ms: count }).nullable(),
  })
  .meta({ id: "Rate" });
export type RateView = z.infer<typeof RateView>;

/** A token's rate: a usable value, or the reason why it has no rate. */
export type RateReport = RateReading & {
  token: Pick<AcceptedToken, "network" | "asset" | "symbol">;
  min_rate: string | undefined;
  max_rate: string | undefined;
  ageMs?: number;
  /** Failure of a gateway's last attempt to read the rate; undefined if it succeeded. */
  lastFailure?: { reason: string; ageMs: number };
};

/**
 * Returns the rate at which the payment gateways offer a token. It is either fixed in the configuration, or read by
 * a gateway from its source and shared with the others in Redis.
 */
export async function readRate(partition: Partition, token: AcceptedToken): Promise<RateReport> {
  return isLive(token) ? sharedRate(partition, token) : fixedRate(token);
}

/** Returns the fixed rate from the configuration. */
export function fixedRate(token: AcceptedToken): RateReport {
  const { rate_per_native_unit: rate } = token;
  return { ...rateReport(token), value: typeof rate === "string" ? rate : undefined, ageMs: 0 };
}

async function sharedRate(partition: Partition, token: AcceptedToken & LiveToken): Promise<RateReport> {
  const { known, failure, now } = await createSharedValue(partition, token).peek();
  const lastFailure = failure && { reason: failure.reason, ageMs: Math.max(0, now - failure.at) };
  const report = { ...rateReport(token), ...(lastFailure && { lastFailure }) };
  if (known === undefined)
    return { ...report, reason: "no gateway has read it yet, or the last value has expired" };
  const { value: last, ageMs } = known;
  const tooOld = ageMs > token.max_rate_age_secs * 1000;
  const reason = tooOld ? `${last} is older than max_rate_age_secs` : outsideOf(last, token);
  return reason === undefined ? { ...report, value: last, ageMs } : { ...report, reason, ageMs };
}

/** Returns the configured source and limits of a token's rate, without a value. */
export function rateReport(token: AcceptedToken): RateReport {
  const { rate_per_native_unit: rate, min_rate, max_rate } = token;
  return { token, source: typeof rate === "string" ? "fixed" : describeSource(rate), min_rate, max_rate };
}

export function toRateView({
  token,
  min_rate,
  max_rate,
  ageMs,
  lastFailure,
  ...verdict
}: RateReport): RateView {
  return {
    network: token.network,
    asset: token.asset,
    symbol: token.symbol,
    min_rate: min_rate ?? null,
    max_rate: max_rate ?? null,
    age_ms: ageMs ?? null,
    offered: verdict.value !== undefined,
    ...toReadingView(verdict),
    last_failure: lastFailure ? { reason: lastFailure.reason, age_ms: lastFailure.ageMs } : null,
  };
}

function toReadingView({ source, value, reason, legs }: RateReading): z.infer<typeof ReadingView> {
  const own = { source, value: value ?? null, reason: reason ?? null };
  return legs === undefined ? own : { ...own, legs: legs.map(toReadingView) };
}
