import { x402BudgetProblems } from "../../shared/config/between-files.ts";
import type { PriceList } from "../../shared/config/job-pricing-toml.ts";
import type { PosternToml } from "../../shared/config/postern-toml.ts";
import { type X402Toml, x402Problems, x402Toml } from "../../shared/config/x402-toml.ts";
import { COMMON, type GatewayOptions, readCommon } from "../../shared/library/common-options.ts";
import { type JobOptions, readJobs } from "../../shared/library/job-options.ts";
import { checkOptions, tableOf } from "../../shared/library/option-check.ts";
import { toOptionWarning } from "../../shared/library/option-names.ts";
import type { DomainOptions, RateOptions, TokenOptions } from "../../shared/library/token-options.ts";
import { priceProblems } from "../../shared/pricing/prices.ts";
import { ratesOf, x402Warnings } from "../../shared/pricing/x402-checks.ts";
import type { Authorize } from "./facilitator/authorize.ts";

/** The options of `createX402Gateway`: the keys of `x402.toml` in camelCase, the jobs, and what all gateways have. */
export type X402GatewayOptions = GatewayOptions & {
  /** Where buyers reach the gateway, with the path under which your server has it: the URLs that it prints begin with it. */
  publicUrl: string;
  /** Who verifies and settles: one URL or several, or `facilitators` with credentials of their own. */
  facilitatorUrl?: string | readonly string[];
  /** Sent to the one `facilitatorUrl`. The values are secrets. */
  facilitatorHeaders?: Readonly<Record<string, string>>;
  facilitators?: readonly FacilitatorOptions[];
  /**
   * Gives headers of a single request to a facilitator, such as a signed token; they are added to those above. Its time is part of the
   * request's. If it rejects or is late, nothing is sent.
   */
  authorize?: Authorize;
  /** The same at every gateway, or `env:NAME` or `file:/path`. Of several the first signs, and each is good. */
  quoteSecret: string | readonly string[];
  /** What can be paid with; at least one. */
  acceptedTokens: readonly TokenOptions[];
  /** What is sold. */
  jobs: readonly JobOptions[];
  /** Who may buy a job; anybody, by default. */
  jobPolicies?: readonly JobPolicyOptions[];
  /** The policy of jobs without one. `public_paid` by default. */
  defaultInvocationMode?: "public_paid" | "disabled";
  /** For tokens that have none of their own. */
  ratePerNativeUnit?: string | RateOptions;
  /** In hundredths of a percent, for tokens that have none of their own. 0 by default. */
  markupBps?: number;
  /** Seconds for which the price in a 402 holds. 300 by default. */
  quoteTtlSecs?: number;
  /** Seconds that an authorization may last, as offered. 120 by default. */
  maxTimeoutSecs?: number;
  /** Seconds that an authorization may last at most. 3660 by default. */
  paymentWindowSecsMax?: number;
  /** Offers in one 402. All by default. */
  maxOffers?: number;
  /** Payments of one payer whose outcome is open. 8 by default. */
  openPaymentsPerPayer?: number;
  /** Verifies a minute that led to no payment: of one payer (30 by default) and of one address (600). */
  unpaidVerifiesPerPayer?: number;
  unpaidVerifiesPerAddress?: number;
  /** Whether the facilitator is believed where there is no `rpcUrl`. False by default. */
  trustFacilitator?: boolean;
  /** Addresses whose signed quotes are honoured. None by default. */
  quoteOperators?: readonly string[];
  /** The EIP-712 domain of their quotes; needed with `quoteOperators`. */
  quoteDomain?: DomainOptions;
  /** Hosts that a paid request may have called back at its call's end, in `X-PLATFORM-CALLBACK`: `hooks.example.com`, or `*.example.com`. */
  callbackHosts?: readonly string[];
  /** Bytes of a body: at most 64 MiB, 1 MiB by default. */
  bodyLimitBytes?: number;
  /** Seconds in which a whole request has to arrive at a server of `listen()`. 15 by default. */
  requestTimeoutSecs?: number;
  /** Seconds for a verify (10 by default) and for a settle (20). */
  facilitatorTimeoutSecs?: number;
  settleTimeoutSecs?: number;
};

/** A facilitator with credentials of its own: an entry of `[[facilitators]]`. */
export type FacilitatorOptions = {
  url: string;
  headers?: Readonly<Record<string, string>>;
  /** An API key of Coinbase's CDP. */
  cdp?: { keyId: string; keySecret: string };
};

/** Who may buy a job: an entry of `[[job_policies]]`. */
export type JobPolicyOptions = { serviceId: number; jobIndex: number } & (
  | { invocationMode: "public_paid" }
  | { invocationMode: "disabled" }
  | ({ invocationMode: "restricted_paid"; rpcUrl: string; contract: string } & (
      | { authMode: "payer_is_caller" }
      | {
          authMode: "delegated_caller_signature";
          /** Seconds that a caller's proof may last. 3600 by default. */
          callerExpirySecsMax?: number;
          /** Whether a caller's proof must name `publicUrl`, so that no other gateway accepts it. False by default. */
          boundCallerProof?: boolean;
        }
    ))
);

type Read = { x402: X402Toml; prices: PriceList; postern: PosternToml; warnings: readonly string[] };

const OWN = [...COMMON, "jobs", "authorize", "bindAddress"];

/** @internal The options as a checked configuration. Throws `start.config_invalid`. */
export function readX402Options(options: X402GatewayOptions): Read {
  const check = checkOptions(options);
  const postern = readCommon(check, options, "requests");
  if (options.authorize !== undefined && typeof options.authorize !== "function")
    check.reportOption("authorize", "must be a function");
  if ("bindAddress" in options) check.reportOption("bindAddress", "is what listen() takes");
  const table = tableOf(options, OWN);
  const x402 = check.read({ schema: x402Toml({ env: check.env }), table, problemsIn: x402Problems });
  const prices = readJobs(check, options.jobs, (jobs) => priceProblems(jobs, ratesOf(table)));
  check.reportBetween<[PosternToml]>(["postern"], (limits) =>
    x402BudgetProblems(limits, table, "this gateway"),
  );
  const warnings = x402 && prices ? x402Warnings(x402, prices).map(toOptionWarning) : [];
  return check.checked(postern && x402 && prices && { x402, prices, postern, warnings });
}
