import { z } from "zod";
import { httpUrl } from "../../shared/config/fields.ts";
import type { PriceList } from "../../shared/config/job-pricing-toml.ts";
import type { PosternToml } from "../../shared/config/postern-toml.ts";
import { type PricingToml, pricingOptions } from "../../shared/config/pricing-toml.ts";
import { rateProblems } from "../../shared/config/rate-source.ts";
import { type AcceptedToken, acceptedToken } from "../../shared/config/x402-toml.ts";
import {
  COMMON,
  type CommonOptions,
  type HttpOptions,
  readCommon,
} from "../../shared/library/common-options.ts";
import { type JobOptions, readJobs } from "../../shared/library/job-options.ts";
import { checkOptions, tableOf } from "../../shared/library/option-check.ts";
import { toOptionWarning } from "../../shared/library/option-names.ts";
import type { DomainOptions, TokenOptions } from "../../shared/library/token-options.ts";
import { pricingWarnings, tooCheap } from "../../shared/pricing/pricing-checks.ts";
import type { DurabilityMode } from "../../shared/redis/server-state.ts";

/** The options of `createPricingService`: the keys of `pricing.toml` in camelCase, and the jobs. */
export type PricingOptions = CommonOptions & {
  /** What is quoted, at 100 wei or more. */
  jobs: readonly JobOptions[];
  /** The operator's private key: 64 hex digits, with or without 0x before them, or `env:NAME` or `file:/path`. */
  key: string;
  domain: DomainOptions;
  /** Leading zero bits of a proof of work. 20 by default. */
  powDifficulty?: number;
  /** Seconds for which a quote holds: the lower of the two counts. 300 and 3600 by default. */
  quoteTtlSecs?: number;
  maxQuoteAgeSecs?: number;
  /** With `strict`, the default, quotes are given only while Redis' settings keep what is remembered of proofs. */
  durability?: DurabilityMode;
  /** As that of a gateway. */
  declared?: string;
  http?: Omit<HttpOptions, "bodyBudgetBytes">;
  /** Adds to each answer how and where its quote can be settled through an x402 gateway. */
  settlement?: SettlementOptions;
  /** As that of a gateway. */
  mountPath?: string;
};

/** The options of the same names of the x402 gateway that takes the quotes. */
export type SettlementOptions = { publicUrl: string; acceptedTokens: readonly TokenOptions[] };

type Read = {
  pricing: Omit<PricingToml, "bind_address" | "http_address">;
  jobs: PriceList;
  tokens: readonly AcceptedToken[];
  postern: PosternToml;
  warnings: readonly string[];
};

/** @internal The options as a checked configuration. Throws `start.config_invalid`. */
export function readPricingOptions(options: PricingOptions): Read {
  const check = checkOptions(options);
  const postern = readCommon(check, options, "requests");
  const table = tableOf(options, [...COMMON, "jobs", "settlement"]);
  const pricing = check.read({ schema: pricingOptions({ env: check.env }), table });
  const jobs = readJobs(check, options.jobs, tooCheap);
  const settled = tableOf({ settlement: options.settlement })["settlement"];
  const settlement = check.read({
    schema: z
      .strictObject({
        public_url: httpUrl,
        accepted_tokens: z.array(acceptedToken({ env: check.env })).min(1),
      })
      .optional(),
    table: settled,
    problemsIn: ratesIn,
    placeOf: (path) => ["settlement", ...path],
  });
  const tokens = settlement?.accepted_tokens ?? [];
  const warnings = pricing && jobs ? pricingWarnings(pricing, jobs).map(toOptionWarning) : [];
  return check.checked(postern && pricing && jobs && { postern, pricing, jobs, tokens, warnings });
}

function ratesIn(settlement: unknown) {
  const { accepted_tokens } = (settlement ?? {}) as { accepted_tokens?: unknown };
  return Array.isArray(accepted_tokens) ? accepted_tokens.flatMap(rateProblems) : [];
}
