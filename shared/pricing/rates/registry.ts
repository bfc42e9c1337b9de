import { type Bounds, type LeafSource, outsideOf, type RateSource } from "../../config/rate-source.ts";
import { AppError } from "../../errors/app-error.ts";
import { within } from "../../time/within.ts";
import type { ReadOptions, ReadRate } from "./source.ts";
import { noRate } from "./source.ts";
import { chainlinkReader } from "./sources/chainlink.ts";
import { httpJsonReader } from "./sources/http-json.ts";
import { agreedMedian } from "./sources/median.ts";
import { twapReader } from "./sources/uniswap-v3-twap.ts";

/** What came of one look at a source: a value, or the reason why there is none; of a median also of each of its sources. */
export type Verdict = {
  source: string;
  value?: string | undefined;
  reason?: string;
  legs?: readonly Verdict[];
};

/** Looks at a source now; never rejects, and never takes much longer than the time for one source. */
export type Judge = () => Promise<Verdict>;

/** A value outside the bounds counts as none. */
export function createJudge(source: RateSource, bounds: Bounds, options: ReadOptions): Judge {
  const judge = source.source === "median" ? medianJudge(source, options) : leafJudge(source, options);
  return async () => {
    const verdict = await judge();
    if (verdict.value === undefined) return verdict;
    const problem = outsideOf(verdict.value, bounds);
    return problem === undefined ? verdict : { ...verdict, value: undefined, reason: problem };
  };
}

/** How many exchanges with its source a read needs at most, one after the other. */
const EXCHANGES_MAX = 2;

function leafJudge(leaf: LeafSource, options: ReadOptions): Judge {
  const read = readerOf(leaf, options);
  const source = describeSource(leaf);
  const deadlineMs = options.timeoutMs * EXCHANGES_MAX;
  return async () => {
    const outcome = await within(deadlineMs, read());
    switch (outcome.kind) {
      case "done":
        return { source, value: outcome.result };
      case "late":
        return { source, reason: `no rate within ${deadlineMs} ms` };
      case "failed":
        return { source, reason: safeReason(outcome.error) };
    }
  };
}

function readerOf(source: LeafSource, options: ReadOptions): ReadRate {
  switch (source.source) {
    case "fixed":
      return async () => source.rate;
    case "chainlink":
      return chainlinkReader(source, options);
    case "uniswap_v3_twap":
      return twapReader(source, options);
    case "http_json":
      return httpJsonReader(source, options);
  }
}

/** Our own reasons have no URL in them; of what nobody foresaw only the name is told. */
function safeReason(error: unknown): string {
  if (error instanceof AppError) return error.message;
  return error instanceof Error ? error.name : "it failed";
}

function medianJudge(median: Extract<RateSource, { source: "median" }>, options: ReadOptions): Judge {
  const judges = median.of.map((leaf) => leafJudge(leaf, options));
  const rules = { maxDeviationBps: median.max_deviation_bps, sourcesMin: median.min_sources };
  const source = describeSource(median);
  return async () => {
    const read = await Promise.all(judges.map((judge) => judge()));
    const answered = read.filter((each) => each.value !== undefined);
    const { agrees, value } = agreedMedian(
      answered.map((each) => each.value ?? ""),
      rules,
    );
    const apart = new Set(answered.filter((_, index) => !agrees[index]));
    const legs = read.map((each) =>
      apart.has(each) ? { ...each, reason: "left out: more than max_deviation_bps off" } : each,
    );
    if (value !== undefined) return { source, legs, value };
    const agreeing = agrees.filter(Boolean).length;
    return { source, legs, reason: noRate(tooFew(agreeing, median, legs)).message };
  };
}

function tooFew(
  agreeing: number,
  { min_sources }: { min_sources: number },
  legs: readonly Verdict[],
): string {
  const out = legs.flatMap(({ source, reason }) => (reason === undefined ? [] : [`${source}: ${reason}`]));
  return `${agreeing} of ${legs.length} sources agree, and min_sources is ${min_sources} (${out.join("; ")})`;
}

/** A source in a few words, none of them secret. */
export function describeSource(source: RateSource): string {
  switch (source.source) {
    case "fixed":
      return "fixed";
    case "chainlink":
      return `chainlink ${source.feed}`;
    case "uniswap_v3_twap":
      return `uniswap_v3_twap ${source.pool}`;
    case "http_json":
      return `http_json ${new URL(source.url.reveal()).host}`;
    case "median":
      return `median of ${source.of.length}`;
  }
}
