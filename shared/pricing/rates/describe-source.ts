import type { RateSource } from "../../config/rate-source.ts";

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
