import { requireAcceptedTokens } from "../../../shared/config/accepted-tokens.ts";
import type { AcceptedToken } from "../../../shared/config/x402-toml.ts";
import {
  fixedRate,
  type RateReport,
  rateReport,
  readRate,
  toRateView,
} from "../../../shared/console/rates.ts";
import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { READ_TIMEOUT_MS } from "../../../shared/pricing/rates/rates.ts";
import { createRateReader } from "../../../shared/pricing/rates/registry.ts";
import { isLive, type RateReading } from "../../../shared/pricing/rates/source.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { wrapped } from "../table.ts";
import { jsonLine, plain } from "../text.ts";
import { withRedis } from "../with-redis.ts";

export type RatesOptions = { configDir: string; test?: boolean; json?: boolean };

/** `postern rates list`: 0 if every token has a rate that can be used, else 1. */
export async function showRates(deps: ProgramDeps, options: RatesOptions): Promise<number> {
  const tokens = acceptedTokens(deps, options.configDir);
  if (tokens === undefined) return EXIT.config;

  const show = (reports: readonly RateReport[]): number => {
    if (options.json) deps.print(jsonLine({ rates: reports.map(toRateView) }));
    deps.say(reports.map((report) => tokenText(report, deps)).join(""));
    return reports.every(({ value }) => value !== undefined) ? EXIT.ok : EXIT.failed;
  };
  if (options.test) return show(await Promise.all(tokens.map(askSource)));
  if (!tokens.some(isLive)) return show(tokens.map(fixedRate));
  return withRedis(deps, options, async ({ partition }) =>
    show(await Promise.all(tokens.map((token) => readRate(partition, token)))),
  );
}

/** Prints why they cannot be read, and is then undefined. */
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

function tokenText(report: RateReport, { terminal, paint }: ProgramDeps): string {
  const { token, min_rate, max_rate, ageMs, lastFailure, source, value, reason, legs } = report;
  const [line, tone] =
    value === undefined ? (["no rate", "bad"] as const) : ([`${value} per native coin`, "good"] as const);
  const parts = [
    source === "fixed" ? "fixed in x402.toml" : source,
    ...(ageMs === undefined || source === "fixed" ? [] : [`read ${secsAgo(ageMs)}`]),
    boundsText({ min_rate, max_rate }),
    value === undefined ? "the token is NOT ACCEPTED" : "the token is accepted",
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

function boundsText({ min_rate: min, max_rate: max }: Pick<RateReport, "min_rate" | "max_rate">): string {
  return min === undefined && max === undefined
    ? "without limits"
    : `limits: ${min ?? "none"} to ${max ?? "none"}`;
}

function secsAgo(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s ago`;
}

function legText({ source, value, reason }: RateReading): string {
  return `${source}: ${[value, reason].filter((part) => part !== undefined).join("; ")}`;
}
