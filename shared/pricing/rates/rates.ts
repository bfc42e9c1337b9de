import type { Logger } from "../../platform/log/logger.ts";
import type { Metrics } from "../../platform/metrics/metrics.ts";
import type { Clock } from "../../platform/time/clock.ts";
import type { Partition } from "../../redis/partition.ts";
import { createFeed, type Feed } from "./feed.ts";
import { createRateReader, describeSource } from "./registry.ts";
import { createSharedValue, identityOf, type RateFailure } from "./shared-value.ts";
import { isLive, type LiveToken, type RatedToken } from "./source.ts";

/** Timeout of one request to a source. */
export const READ_TIMEOUT_MS = 5000;

/** A token's rate, as far as it is known now. */
export type ObservedRate = {
  network: string;
  asset: string;
  symbol: string;
  source: string;
  /** Undefined if no value is recent enough. The token is then not offered. */
  value: string | undefined;
  /** Age of the last good value; 0 for a fixed rate. */
  ageMs: number | undefined;
  /** The reason why the last read of the source failed, at any replica. Undefined if it succeeded. */
  failure: RateFailure | undefined;
};

export type Rates<Token> = {
  /** Returns the number of tokens for 10^18 wei now. Undefined if it is not known. Reads only memory, not Redis or the source. */
  of(token: Token): string | undefined;
  observed(): ObservedRate[];
  /**
   * Begins to read the sources. Resolves once each of them has answered or timed out. If all rates are fixed, it does nothing, so
   * that Redis is not needed.
   */
  start(): Promise<void>;
  close(): void;
};

type Options<Token> = {
  tokens: readonly Token[];
  partition: Partition;
  clock: Clock;
  log: Logger;
};

/** Keeps the rates of these tokens current in the background. Tokens with the same settings share one feed. */
export function createRates<Token extends RatedToken>(options: Options<Token>): Rates<Token> {
  const { tokens, partition, clock, log } = options;
  const feeds: Feed[] = [];
  const byToken = new Map<RatedToken, Feed>();
  for (const group of groupsOf(tokens)) {
    const [token] = group;
    const feed = createFeed({
      token,
      names: group.map(({ symbol, network }) => `${symbol} (${network})`),
      read: createRateReader(token.rate_per_native_unit, token, { clock, timeoutMs: READ_TIMEOUT_MS }),
      shared: createSharedValue(partition, token, group),
      clock,
      log,
    });
    feeds.push(feed);
    for (const each of group) byToken.set(each, feed);
  }

  function of(token: Token): string | undefined {
    const { rate_per_native_unit: rate } = token;
    return typeof rate === "string" ? rate : byToken.get(token)?.current();
  }

  function observe(token: Token): ObservedRate {
    const { network, asset, symbol, rate_per_native_unit: rate } = token;
    const source = typeof rate === "string" ? "fixed" : describeSource(rate);
    const feed = byToken.get(token);
    const ageMs = typeof rate === "string" ? 0 : feed?.ageMs();
    return { network, asset, symbol, source, value: of(token), ageMs, failure: feed?.failure() };
  }

  return {
    of,
    observed: () => tokens.map(observe),
    start: async () => void (await Promise.all(feeds.map((feed) => feed.start()))),
    close: () => {
      for (const feed of feeds) feed.close();
    },
  };
}

type Group = [LiveToken, ...LiveToken[]];

/** Groups the tokens whose rate must be read from a source. The tokens of a group have the same settings, and share one feed. */
function groupsOf(tokens: readonly RatedToken[]): Iterable<Group> {
  const groups = new Map<string, Group>();
  for (const token of tokens.filter(isLive)) {
    const identity = identityOf(token);
    const group = groups.get(identity);
    if (group === undefined) groups.set(identity, [token]);
    else group.push(token);
  }
  return groups.values();
}

/** Registers gauges of each token's rate. The value is present only while the rate is recent enough to be used. */
export function registerRates(metrics: Metrics, observed: () => readonly ObservedRate[]): void {
  const labels = ["network", "asset", "symbol"] as const;
  const value = metrics.gauge("postern_rate_value", "Tokens for 10^18 wei; absent if unknown", labels);
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
