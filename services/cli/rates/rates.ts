import { outsideOf } from "../../../shared/config/rate-source.ts";
import type { AcceptedToken } from "../../../shared/config/x402-toml.ts";
import { toAppError } from "../../../shared/errors/app-error.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { loadX402Config } from "../../../shared/pricing/load-x402-config.ts";
import { READ_TIMEOUT_MS } from "../../../shared/pricing/rates/rates.ts";
import { createRateReader, describeSource } from "../../../shared/pricing/rates/registry.ts";
import { createSharedValue } from "../../../shared/pricing/rates/shared-value.ts";
import { isLive, type LiveToken, type RateReading } from "../../../shared/pricing/rates/source.ts";
import type { Redis } from "../../../shared/redis/connect.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { withRedis } from "../with-redis.ts";
import { ratesJson, ratesText, type TokenReport } from "./rates-text.ts";

export type RatesOptions = { configDir: string; test?: boolean; json?: boolean };

/** `postern rates`: 0 when every token has a usable rate, 1 when one has none. */
export async function showRates(deps: ProgramDeps, options: RatesOptions): Promise<number> {
  const tokens = readTokens(deps, options);
  if (tokens === undefined) return EXIT.config;
  if (options.test) return print(deps, options, await Promise.all(tokens.map(tested)));
  if (!tokens.some(isLive)) return print(deps, options, tokens.map(fixed));
  return withRedis(deps, options, async ({ redis }) => {
    const reports = tokens.map((token) => (isLive(token) ? shared(redis, token) : fixed(token)));
    return print(deps, options, await Promise.all(reports));
  });
}

function readTokens({ env, printError }: ProgramDeps, { configDir }: RatesOptions) {
  try {
    const { x402 } = loadX402Config({ dir: configDir, env });
    if (x402 !== undefined) return x402.accepted_tokens;
    printError(`${configDir}/x402.toml: there is no such file\n`);
  } catch (thrown) {
    printError(`${toAppError(thrown).message}\n`);
  }
  return undefined;
}

function print(deps: ProgramDeps, { json }: RatesOptions, reports: readonly TokenReport[]): number {
  deps.print(json ? `${JSON.stringify(ratesJson(reports))}\n` : ratesText(reports));
  return reports.every(({ value }) => value !== undefined) ? EXIT.ok : EXIT.failed;
}

function reportOf(token: AcceptedToken) {
  const { rate_per_native_unit: rate, min_rate, max_rate } = token;
  return { token, source: typeof rate === "string" ? "fixed" : describeSource(rate), min_rate, max_rate };
}

function fixed(token: AcceptedToken): TokenReport {
  const { rate_per_native_unit: rate } = token;
  return { ...reportOf(token), value: typeof rate === "string" ? rate : undefined, ageMs: 0 };
}

/** What the gateways share, and whether they offer the token for it. */
async function shared(redis: Redis, token: AcceptedToken & LiveToken): Promise<TokenReport> {
  const { known } = await createSharedValue(redis, token).peek();
  const report = reportOf(token);
  if (known === undefined) return { ...report, reason: "no gateway has read it yet, or not for long" };
  const { value: last, ageMs } = known;
  const tooOld = ageMs > token.max_rate_age_secs * 1000;
  const reason = tooOld ? `${last} is older than max_rate_age_secs` : outsideOf(last, token);
  return reason === undefined ? { ...report, value: last, ageMs } : { ...report, reason, ageMs };
}

async function tested(token: AcceptedToken): Promise<TokenReport> {
  if (!isLive(token)) return fixed(token);
  const options = { clock: systemClock, timeoutMs: READ_TIMEOUT_MS };
  const verdict: RateReading = await createRateReader(token.rate_per_native_unit, token, options)();
  return { ...reportOf(token), ...verdict };
}
