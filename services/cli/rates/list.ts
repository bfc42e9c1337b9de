import { requireAcceptedTokens } from "../../../shared/config/accepted-tokens.ts";
import type { AcceptedToken } from "../../../shared/config/x402-toml.ts";
import {
  fixedRate,
  type RateReport,
  type RateView,
  rateReport,
  readRate,
  toRateView,
} from "../../../shared/console/rates.ts";
import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { READ_TIMEOUT_MS } from "../../../shared/pricing/rates/rates.ts";
import { createRateReader } from "../../../shared/pricing/rates/registry.ts";
import { isLive } from "../../../shared/pricing/rates/source.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { wrapped } from "../table.ts";
import { jsonLine, plain } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";
import { withRedis } from "../with-redis.ts";

export type RatesOptions = OperationTarget & { test?: boolean; json?: boolean };

/**
 * `postern rates list`: prints the rate of each accepted token, with its source and age. Exit code 1 if a token has no
 * usable rate, so that gateways do not offer it.
 */
export async function showRates(deps: ProgramDeps, options: RatesOptions): Promise<number> {
  const { operator, test, configDir } = options;
  const show = (rates: readonly RateView[]): number => {
    if (options.json) deps.print(jsonLine({ rates }));
    deps.say(rates.map((rate) => tokenText(rate, deps)).join(""));
    return rates.every(({ offered }) => offered) ? EXIT.ok : EXIT.failed;
  };
  if (operator !== undefined && !test)
    return withOperations(deps, options, async ({ listPrices }) => {
      const { rates } = await listPrices();
      if (rates.length === 0) throw new Error("the console has no x402.toml, so no token is accepted");
      return show(rates.map(({ history: _, ...rate }) => rate));
    });

  const tokens = acceptedTokens(deps, configDir);
  if (tokens === undefined) return EXIT.config;
  const showReports = async (reports: Promise<RateReport>[]) =>
    show((await Promise.all(reports)).map(toRateView));
  if (test) return showReports(tokens.map(askSource));
  if (!tokens.some(isLive)) return show(tokens.map(fixedRate).map(toRateView));
  return withRedis(deps, { configDir }, ({ partition }) =>
    showReports(tokens.map((token) => readRate(partition, token))),
  );
}

/** Returns the accepted tokens. If they cannot be read, prints the reason and returns undefined. */
function acceptedTokens({ env, printError }: ProgramDeps, dir: string): readonly AcceptedToken[] | undefined {
  try {
    return requireAcceptedTokens({ dir, env }, "rates");
  } catch (thrown) {
    printError(toAppError(thrown));
    return undefined;
  }
}

async function askSource(token: AcceptedToken): Promise<RateReport> {
  if (!isLive(token)) return fixedRate(token);
  const options = { clock: systemClock, timeoutMs: READ_TIMEOUT_MS };
  const verdict = await createRateReader(token.rate_per_native_unit, token, options)();
  return { ...rateReport(token), ...verdict };
}

function tokenText(rate: RateView, { terminal, paint }: ProgramDeps): string {
  const {
    symbol,
    network,
    age_ms: ageMs,
    offered,
    last_failure: lastFailure,
    source,
    value,
    reason,
    legs,
  } = rate;
  const [line, tone] = offered
    ? ([`${value} per native coin`, "good"] as const)
    : (["no rate", "bad"] as const);
  const parts = [
    source === "fixed" ? "fixed in x402.toml" : source,
    ...(ageMs === null || source === "fixed" ? [] : [`read ${secsAgo(ageMs)}`]),
    boundsText(rate),
    offered ? "the token is accepted" : "the token is NOT ACCEPTED",
  ];
  const failed = lastFailure && `last read failed ${secsAgo(lastFailure.age_ms)}: ${lastFailure.reason}`;
  const below = (text: string | null, indent = "  "): string =>
    text === null ? "" : `${wrapped(plain(text), terminal.columns, indent)}\n`;
  return [
    `${plain(symbol)} (${plain(network)}): ${paint(tone, line)}\n`,
    below(parts.join("; ")),
    below(reason),
    below(failed),
    ...(legs ?? []).map((leg) => below(legText(leg), "    ")),
  ].join("");
}

function boundsText({ min_rate: min, max_rate: max }: RateView): string {
  return min === null && max === null ? "without limits" : `limits: ${min ?? "none"} to ${max ?? "none"}`;
}

function secsAgo(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s ago`;
}

function legText({ source, value, reason }: NonNullable<RateView["legs"]>[number]): string {
  return `${source}: ${[value, reason].filter((part) => part !== null).join("; ")}`;
}
