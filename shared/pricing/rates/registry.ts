import {
  type MedianSource,
  outsideOf,
  type RateBounds,
  type RateSource,
  type SingleSource,
} from "../../config/rate-source.ts";
import { AppError } from "../../platform/errors/app-error.ts";
import { within } from "../../platform/time/clock.ts";
import type { RateReader, ReadOptions, ReadRate } from "./source.ts";
import { chainlinkReader } from "./sources/chainlink.ts";
import { fixedReader } from "./sources/fixed.ts";
import { httpJsonReader } from "./sources/http-json.ts";
import { medianReader } from "./sources/median.ts";
import { twapReader } from "./sources/uniswap-v3-twap.ts";

/*
 * Connects the names of rate sources in the configuration with the code that reads them. A new source needs a file in sources/,
 * its keys in shared/config/rate-source.ts, and a case in both switches below. The compiler reports a switch that lacks it.
 */

function readerOf(source: SingleSource, options: ReadOptions): ReadRate {
  switch (source.source) {
    case "fixed":
      return fixedReader(source);
    case "chainlink":
      return chainlinkReader(source, options);
    case "uniswap_v3_twap":
      return twapReader(source, options);
    case "http_json":
      return httpJsonReader(source, options);
  }
}

/** Describes a source in a few words, without secrets. */
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

/**
 * Creates a function that reads this source within a deadline. A value outside the token's bounds (`min_rate`, `max_rate`) counts
 * as a failure.
 */
export function createRateReader(source: RateSource, bounds: RateBounds, options: ReadOptions): RateReader {
  const read = source.source === "median" ? readerOfMedian(source, options) : readerOfOne(source, options);
  return async () => {
    const reading = await read();
    if (reading.value === undefined) return reading;
    const problem = outsideOf(reading.value, bounds);
    return problem === undefined ? reading : { ...reading, value: undefined, reason: problem };
  };
}

function readerOfMedian(source: MedianSource, options: ReadOptions): RateReader {
  return medianReader(
    source,
    source.of.map((each) => readerOfOne(each, options)),
    describeSource(source),
  );
}

/**
 * Maximum number of requests that one read of a source makes one after the other. Requests that run at the same time count as
 * one.
 */
const EXCHANGES_MAX = 2;

function readerOfOne(single: SingleSource, options: ReadOptions): RateReader {
  const read = readerOf(single, options);
  const source = describeSource(single);
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

/**
 * Returns the reason of an error, without secrets. The message of an `AppError` contains no URL. Of any other error, only the
 * name is returned, because its message may contain a URL with a key.
 */
function safeReason(error: unknown): string {
  if (error instanceof AppError) return error.message;
  return error instanceof Error ? error.name : "unknown error";
}
