import { outsideOf } from "../../shared/config/rate-source.ts";
import type { AcceptedToken } from "../../shared/config/x402-toml.ts";
import { EXIT } from "../../shared/lifecycle/run-service.ts";
import { READ_TIMEOUT_MS } from "../../shared/pricing/rates/rates.ts";
import { createRateReader, describeSource } from "../../shared/pricing/rates/registry.ts";
import { createSharedValue } from "../../shared/pricing/rates/shared-value.ts";
import { isLive, type LiveToken, type RateReading } from "../../shared/pricing/rates/source.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { systemClock } from "../../shared/time/clock.ts";
import { readAcceptedTokens } from "./accepted-tokens.ts";
import type { ProgramDeps } from "./program-deps.ts";
import { wrapped } from "./table.ts";
import { jsonLine, plain } from "./text.ts";
import { withRedis } from "./with-redis.ts";

export type RatesOptions = { configDir: string; test?: boolean; json?: boolean };

/** A token's rate: a value that can be used, or the reason why there is none. */
type TokenReport = RateReading & {
  token: Pick<AcceptedToken, "network" | "asset" | "symbol">;
  min_rate: string | undefined;
  max_rate: string | undefined;
  ageMs?: number;
  /** Of the last read by a gateway; undefined if it went well. */
  lastFailure?: { reason: string; ageMs: number };
};

/** `postern rates`: 0 if every token has a rate that can be used, else 1. */
export async function showRates(deps: ProgramDeps, options: RatesOptions): Promise<number> {
  const tokens = readAcceptedTokens(deps, options.configDir, "rates");
  if (tokens === undefined) return EXIT.config;

  const show = (reports: readonly TokenReport[]): number => {
    if (options.json) deps.print(jsonLine(ratesJson(reports)));
    deps.say(reports.map((report) => tokenText(report, deps)).join(""));
    return reports.every(({ value }) => value !== undefined) ? EXIT.ok : EXIT.failed;
  };
  if (options.test) return show(await Promise.all(tokens.map(askSource)));
  if (!tokens.some(isLive)) return show(tokens.map(fixedRate));
  return withRedis(deps, options, async ({ partition }) =>
    show(
      await Promise.all(
        tokens.map((token) => (isLive(token) ? sharedRate(partition, token) : fixedRate(token))),
      ),
    ),
  );
}

function fixedRate(token: AcceptedToken): TokenReport {
  const { rate_per_native_unit: rate } = token;
  return { ...reportOf(token), value: typeof rate === "string" ? rate : undefined, ageMs: 0 };
}

/** The rate that the gateways share, and whether they offer the token for it. */
async function sharedRate(partition: Partition, token: AcceptedToken & LiveToken): Promise<TokenReport> {
  const { known, failure, now } = await createSharedValue(partition, token).peek();
  const lastFailure = failure && { reason: failure.reason, ageMs: Math.max(0, now - failure.at) };
  const report = { ...reportOf(token), ...(lastFailure && { lastFailure }) };
  if (known === undefined) return { ...report, reason: "no gateway has read it yet, or not for long" };
  const { value: last, ageMs } = known;
  const tooOld = ageMs > token.max_rate_age_secs * 1000;
  const reason = tooOld ? `${last} is older than max_rate_age_secs` : outsideOf(last, token);
  return reason === undefined ? { ...report, value: last, ageMs } : { ...report, reason, ageMs };
}

async function askSource(token: AcceptedToken): Promise<TokenReport> {
  if (!isLive(token)) return fixedRate(token);
  const options = { clock: systemClock, timeoutMs: READ_TIMEOUT_MS };
  const verdict = await createRateReader(token.rate_per_native_unit, token, options)();
  return { ...reportOf(token), ...verdict };
}

function reportOf(token: AcceptedToken): TokenReport {
  const { rate_per_native_unit: rate, min_rate, max_rate } = token;
  return { token, source: typeof rate === "string" ? "fixed" : describeSource(rate), min_rate, max_rate };
}

/** For scripts. Rates are decimal strings: tokens for 10^18 wei. */
function ratesJson(reports: readonly TokenReport[]) {
  return {
    rates: reports.map(({ token, min_rate, max_rate, ageMs, lastFailure, ...verdict }) => ({
      network: token.network,
      asset: token.asset,
      symbol: token.symbol,
      min_rate: min_rate ?? null,
      max_rate: max_rate ?? null,
      age_ms: ageMs ?? null,
      offered: verdict.value !== undefined,
      ...verdictJson(verdict),
      last_failure: lastFailure ? { reason: lastFailure.reason, age_ms: lastFailure.ageMs } : null,
    })),
  };
}

function verdictJson({ source, value, reason, legs }: RateReading): object {
  const own = { source, value: value ?? null, reason: reason ?? null };
  return legs === undefined ? own : { ...own, legs: legs.map(verdictJson) };
}

/** For people. */
function tokenText(report: TokenReport, { terminal, paint }: ProgramDeps): string {
  const { token, min_rate, max_rate, ageMs, lastFailure, source, value, reason, legs } = report;
  const [line, tone] = value === undefined ? (["no rate", "bad"] as const) : ([value, "good"] as const);
  const parts = [
    source,
    ...(ageMs === undefined || source === "fixed" ? [] : [`read ${secsAgo(ageMs)}`]),
    `bounds: ${min_rate ?? "none"} to ${max_rate ?? "none"}`,
    value === undefined ? "NOT OFFERED" : "offered",
  ];
  const failed = lastFailure && `last read failed ${secsAgo(lastFailure.ageMs)}: ${lastFailure.reason}`;
  const below = (text: string | undefined, indent = "  "): string =>
    text === undefined ? "" : `${wrapped(plain(text), terminal.columns, indent)}\n`;
  return [
    `${token.symbol} (${token.network}): ${paint(tone, line)}\n`,
    below(parts.join("; ")),
    below(reason),
    below(failed),
    ...(legs ?? []).map((leg) => below(legText(leg), "    ")),
  ].join("");
}

function secsAgo(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s ago`;
}

function legText({ source, value, reason }: RateReading): string {
  return `${source}: ${[value, reason].filter((part) => part !== undefined).join("; ")}`;
}
