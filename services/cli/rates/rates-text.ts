import type { AcceptedToken } from "../../../shared/config/x402-toml.ts";
import type { RateReading } from "../../../shared/pricing/rates/source.ts";
import { plain } from "../plain.ts";

/** A token's rate: a value that is usable, or the reason why there is none. */
export type TokenReport = RateReading & {
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

function verdictJson({ source, value, reason, legs }: RateReading): object {
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

function legText({ source, value, reason }: RateReading): string {
  const parts = [value, reason].filter((part) => part !== undefined);
  return `    ${plain(`${source}: ${parts.join("; ")}`)}\n`;
}
