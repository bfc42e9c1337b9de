import { z } from "zod";
import { compare, parseDecimal } from "../platform/text/decimal.ts";
import { didYouMean } from "../platform/text/similar-words.ts";
import { evmAddress, rate, rpcUrl } from "./evm-fields.ts";
import { eitherNotation, isTable } from "./fields.ts";
import { oneOf, type Problem } from "./problem.ts";
import { type SecretSource, secretHeaders, secretValue } from "./secrets.ts";

const YEAR_SECS = 365 * 86_400;
const secs = z.int().min(1).max(YEAR_SECS);
const JSON_POINTER = /^(?:\/(?:[^~/]|~[01])*)*$/;

const fixed = z.strictObject({ source: z.literal("fixed"), rate });

function chainlink(from: SecretSource) {
  return z.strictObject({
    source: z.literal("chainlink"),
    rpc_url: rpcUrl(from),
    feed: evmAddress,
    /**
     * Limit on the age of the feed's answer. It should be a little longer than the feed's heartbeat, the longest time
     * between two of its updates.
     */
    max_age_secs: secs,
    /**
     * True if the feed gives the price of a token in native units. By default, it gives the price of a native unit in
     * tokens.
     */
    invert: z.boolean().default(false),
    sequencer_feed: evmAddress.optional(),
    sequencer_grace_secs: z.int().min(0).max(YEAR_SECS).default(3600),
  });
}

function twap(from: SecretSource) {
  return z.strictObject({
    source: z.literal("uniswap_v3_twap"),
    rpc_url: rpcUrl(from),
    pool: evmAddress,
    /** The wrapped native coin, which is one of the pool's two tokens. */
    native_token: evmAddress,
    window_secs: z.int().min(60).max(86_400).default(1800),
    /** Limit on the age of the node's latest block, because a node that stands still has no current rate. */
    max_age_secs: secs.default(600),
  });
}

function httpJson(from: SecretSource) {
  return z.strictObject({
    source: z.literal("http_json"),
    /** Secret, because some providers take a credential in the query. */
    url: secretValue(from).refine(
      (url) => isHttpsUrl(url.reveal()),
      "must be an https URL without user, password or fragment",
    ),
    pointer: z
      .string()
      .max(1000)
      .regex(JSON_POINTER, 'must be a JSON Pointer (RFC 6901), such as "/data/price"'),
    headers: secretHeaders(from),
  });
}

function isHttpsUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, hash } = new URL(text);
  return protocol === "https:" && username === "" && password === "" && hash === "";
}

/** Sources that do not combine others. Add a new source here: the compiler then finds the other places to change. */
function singles(from: SecretSource) {
  return [fixed, chainlink(from), twap(from), httpJson(from)] as const;
}

const SINGLE_NAMES = ["fixed", "chainlink", "uniswap_v3_twap", "http_json"] as const;
const NAMES = [...SINGLE_NAMES, "median"] as const;

function meant(input: unknown, names: readonly string[]): string {
  const source = isTable(input) ? input["source"] : undefined;
  return typeof source === "string" ? didYouMean(source, names, (name) => JSON.stringify(name)) : "";
}

function single(from: SecretSource) {
  return z.discriminatedUnion("source", singles(from), {
    error: ({ input }) => `must be ${oneOf(SINGLE_NAMES)}${meant(input, SINGLE_NAMES)}`,
  });
}

function median(from: SecretSource) {
  return z
    .strictObject({
      source: z.literal("median"),
      of: z.array(single(from)).min(2, "must list at least two sources").max(15),
      max_deviation_bps: z.int().min(0).max(10_000),
      min_sources: z.int().min(1).optional(),
    })
    .transform((source, context) => {
      const { of, min_sources = Math.floor(of.length / 2) + 1 } = source;
      if (min_sources > of.length)
        context.addIssue({
          code: "custom",
          path: ["min_sources"],
          message: `must be at most ${of.length}, the number of sources`,
        });
      return { ...source, min_sources };
    });
}

/** A source that is not made of other sources. */
export type SingleSource = z.output<ReturnType<typeof single>>;
export type FixedSource = Extract<SingleSource, { source: "fixed" }>;
export type ChainlinkSource = Extract<SingleSource, { source: "chainlink" }>;
export type TwapSource = Extract<SingleSource, { source: "uniswap_v3_twap" }>;
export type HttpJsonSource = Extract<SingleSource, { source: "http_json" }>;
export type MedianSource = z.output<ReturnType<typeof median>>;
export type RateSource = SingleSource | MedianSource;
/** A source that must be read. */
export type LiveSource = Exclude<RateSource, { source: "fixed" }>;

/**
 * Schema of `rate_per_native_unit`, the number of tokens for 10^18 wei. It is a number, or a table that says where to
 * read the number. A table with `source = "fixed"` becomes its number.
 */
export function ratePerNativeUnit(from: SecretSource) {
  const table = z.discriminatedUnion("source", [...singles(from), median(from)], {
    error: ({ input }) => `must be ${oneOf(NAMES)}${meant(input, NAMES)}`,
  });
  return eitherNotation(isTable, table.transform(plainIfFixed), rate);
}

function plainIfFixed(source: RateSource): string | LiveSource {
  return source.source === "fixed" ? source.rate : source;
}

/** Keys of a token that configure how its rate is read. */
export const rateSettings = {
  min_rate: rate.optional(),
  max_rate: rate.optional(),
  rate_refresh_secs: z.int().min(1).max(86_400).default(60),
  max_rate_age_secs: secs.default(900),
};

/** Maximum delay of a read: a process notices after at most 5 s that the read is due, and the read takes at most 10 s. */
const POLL_AND_READ_SECS = 15;

type Row = Readonly<Record<string, unknown>>;

/**
 * Returns the number of a fixed rate, which is written as a number or as a table. Returns undefined if the rate must be
 * read, or is invalid.
 */
export function fixedRateIn(value: unknown): string | undefined {
  const text = isTable(value) && value["source"] === "fixed" ? value["rate"] : value;
  return rate.safeParse(text).data;
}

/** Finds problems between a token's rate and the other keys of its row. Takes the row before its validation. */
export function rateProblems(row: Row, index: number): Problem[] {
  const at = (key: string, message: string): Problem => ({ path: ["accepted_tokens", index, key], message });
  const [min_rate, max_rate] = [rate.safeParse(row["min_rate"]).data, rate.safeParse(row["max_rate"]).data];
  const fixedRate = fixedRateIn(row["rate_per_native_unit"]);
  const outside = fixedRate === undefined ? undefined : outsideOf(fixedRate, { min_rate, max_rate });
  const { rate_refresh_secs = 60, max_rate_age_secs = 900 } = row;
  // Two refresh periods, so that a rate stays usable after one failed read.
  const leastAgeSecs = 2 * Number(rate_refresh_secs) + POLL_AND_READ_SECS;
  return [
    ...(isAbove(min_rate, max_rate) ? [at("min_rate", "must be at most max_rate")] : []),
    ...(outside === undefined || isAbove(min_rate, max_rate) ? [] : [at("rate_per_native_unit", outside)]),
    ...(Number(max_rate_age_secs) < leastAgeSecs
      ? [
          at(
            "max_rate_age_secs",
            `must be at least ${leastAgeSecs} (2 * rate_refresh_secs + ${POLL_AND_READ_SECS}): otherwise, a rate is too old before the next one is read`,
          ),
        ]
      : []),
  ];
}

function isAbove(low: string | undefined, high: string | undefined): boolean {
  const [least, most] = [low, high].map((text) => (text === undefined ? undefined : parseDecimal(text)));
  return least !== undefined && most !== undefined && compare(least, most) > 0;
}

/** Bounds of a token's rate, both inclusive. */
export type RateBounds = { min_rate?: string | undefined; max_rate?: string | undefined };

/** Says why a rate must not be used: it is out of bounds, or not a number. Undefined if it may be used. */
export function outsideOf(value: string, { min_rate, max_rate }: RateBounds): string | undefined {
  const rate = parseDecimal(value);
  if (rate === undefined || rate.numerator === 0n) return "the rate is not a number above 0";
  const [least, most] = [min_rate, max_rate].map((text) => (text === undefined ? text : parseDecimal(text)));
  if (least !== undefined && compare(rate, least) < 0)
    return `${short(value)} is below min_rate (${min_rate})`;
  if (most !== undefined && compare(rate, most) > 0) return `${short(value)} is above max_rate (${max_rate})`;
  return undefined;
}

function short(value: string): string {
  return value.length > 40 ? `${value.slice(0, 40)}...` : value;
}
