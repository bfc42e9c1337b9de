import { loadX402Config } from "../../shared/config/load-x402.ts";
import type { AcceptedToken } from "../../shared/config/x402-toml.ts";
import { toAppError } from "../../shared/errors/app-error.ts";
import { EXIT } from "../../shared/lifecycle/run-service.ts";
import { outsideOf } from "../../shared/pricing/rates/bounds.ts";
import { describeSource } from "../../shared/pricing/rates/describe-source.ts";
import { isLive, type LiveToken } from "../../shared/pricing/rates/rated-token.ts";
import { READ_TIMEOUT_MS } from "../../shared/pricing/rates/rates.ts";
import { createJudge, type Verdict } from "../../shared/pricing/rates/read-rate.ts";
import { createSharedValue } from "../../shared/pricing/rates/shared-value.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import { systemClock } from "../../shared/time/clock.ts";
import type { ProgramDeps } from "./program-deps.ts";
import { plain } from "./text.ts";
import { withRedis } from "./with-redis.ts";

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
  const verdict: Verdict = await createJudge(token.rate_per_native_unit, token, options)();
  return { ...reportOf(token), ...verdict };
}

/** A token's rate: a value that is usable, or the reason why there is none. */
export type TokenReport = Verdict & {
  token: Pick<AcceptedToken, "network" | "asset" | "symbol">;
  min_rate: string | undefined;
  max_rate: string | undefined;
  ageMs?: number;
};

/** The rates for scripts: decimal strings, tokens for 10^18 wei. */
export function ratesJson(reports: readonly TokenReport[]) {
  return {
    rates: reports.map(({ token, min_rate, max_rate, ageMs, ...verdict }) => ({
      network: token.network,
      asset: token.asset,
      symbol: token.symbol,
      min_rate: min_rate ?? null,
      max_rate: max_rate ?? null,
      age_ms: ageMs ?? null,
      offered: verdict.value !== undefined,
      ...verdictJson(verdict),
    })),
  };
}

function verdictJson({ source, value, reason, legs }: Verdict): object {
  const own = { source, value: value ?? null, reason: reason ?? null };
  return legs === undefined ? own : { ...own, legs: legs.map(verdictJson) };
}

/** The same for people. */
export function ratesText(reports: readonly TokenReport[]): string {
  return reports.map(tokenText).join("");
}

function tokenText({ token, min_rate, max_rate, ageMs, ...verdict }: TokenReport): string {
  const facts = [
    verdict.source,
    ...(ageMs === undefined || verdict.source === "fixed" ? [] : [`read ${(ageMs / 1000).toFixed(1)} s ago`]),
    `bounds: ${min_rate ?? "none"} to ${max_rate ?? "none"}`,
    verdict.value === undefined ? "NOT OFFERED" : "offered",
  ];
  const head = `${token.symbol} (${token.network}): ${verdict.value ?? "no rate"}\n  ${plain(facts.join("; "))}\n`;
  const why = verdict.reason === undefined ? "" : `  ${plain(verdict.reason)}\n`;
  return head + why + (verdict.legs ?? []).map(legText).join("");
}

function legText({ source, value, reason }: Verdict): string {
  const parts = [value, reason].filter((part) => part !== undefined);
  return `    ${plain(`${source}: ${parts.join("; ")}`)}\n`;
}
