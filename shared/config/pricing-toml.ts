import { z } from "zod";
import type { Secret } from "../crypto/secret.ts";
import { isPrivateKey, NO_PRIVATE_KEY } from "../ethereum/signatures.ts";
import { JOB_INDEX_MAX, jobKey } from "../job-call/job-ids.ts";
import { eip712Domain, jobQuoteDomain } from "./evm-fields.ts";
import { address, id, positive } from "./fields.ts";
import { priceProblem } from "./job-pricing-toml.ts";
import { durability, forwardedHeader, trustedProxies } from "./postern-toml.ts";
import { problem, report } from "./problem.ts";
import { type Env, secretValue } from "./secrets.ts";

const DAY_SECS = 86_400;
/** No client finds this many zero bits in the time it has, unless it has hardware for it. */
const DIFFICULTY_MAX = 32;

const powDifficulty = z.int().min(0).max(DIFFICULTY_MAX);
const quoteSecs = positive.max(DAY_SECS);

/** `pricing.toml`. Without the file the pricing engine is off. */
export function pricingToml(env: Env) {
  return z.strictObject({
    bind_address: address.default("0.0.0.0:50051"),
    http_address: z
      .union([address, z.literal(false)], 'must be "host:port", or false')
      .default("0.0.0.0:8404"),
    key: signingKey(env),
    domain: jobQuoteDomain,
    pow_difficulty: powDifficulty.default(20),
    quote_ttl_secs: quoteSecs.default(300),
    max_quote_age_secs: quoteSecs.default(3600),
  });
}
export type PricingToml = z.output<ReturnType<typeof pricingToml>>;

/** Its signature binds the operator's money, so the key may not stand in a file that people copy, review and show. */
function signingKey(env: Env) {
  return z
    .unknown()
    .refine((value) => typeof value !== "string" || /^(?:env|file):/.test(value), {
      message: "must be env:VAR or file:/path: the key itself does not belong in this file",
    })
    .pipe(secretValue(env))
    .refine(isOperatorKey, NO_PRIVATE_KEY)
    .meta({ writtenAs: z.string().regex(/^(?:env|file):/) });
}

function isOperatorKey(key: Pick<Secret, "reveal">): boolean {
  return isPrivateKey(key.reveal());
}

/** The contracts refuse quotes of less. */
const QUOTED_PRICE_WEI_MIN = 100n;

/** Why no quote can have this price, in wei; undefined if one can. */
export function tooCheapToQuote(priceWei: bigint): string | undefined {
  if (priceWei >= QUOTED_PRICE_WEI_MIN) return undefined;
  return `is below ${QUOTED_PRICE_WEI_MIN} wei, which the chain's side refuses in a quote`;
}

const quotedJob = z.object({
  serviceId: id,
  jobIndex: z.int().min(0).max(JOB_INDEX_MAX),
  priceWei: z.bigint("must be a bigint").superRefine((priceWei, context) => {
    const message = priceProblem(priceWei) ?? tooCheapToQuote(priceWei);
    if (message !== undefined) report(context, [{ path: [], message }]);
  }),
});

const quotedJobs = z.array(quotedJob).superRefine((jobs, context) => {
  const firsts = new Map<string, number>();
  for (const [index, job] of jobs.entries()) {
    const first = firsts.get(jobKey(job));
    if (first === undefined) firsts.set(jobKey(job), index);
    else report(context, [problem(index, `is the same job as jobs[${first}]`)]);
  }
});

/** The options of a pricing engine that is made by code: the rules of the files, in the names of code. */
export const pricingOptions = z.object({
  jobs: z.preprocess((jobs) => (isIterable(jobs) ? [...jobs] : jobs), quotedJobs),
  key: z.custom<Pick<Secret, "reveal">>((key) => hasReveal(key) && isOperatorKey(key), NO_PRIVATE_KEY),
  domain: eip712Domain,
  powDifficulty,
  quoteTtlSecs: quoteSecs,
  maxQuoteAgeSecs: quoteSecs,
  durability: durability.unwrap(),
  http: z
    .object({ trustedProxies: trustedProxies.optional(), forwardedHeader: forwardedHeader.optional() })
    .optional(),
});

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.iterator in value;
}

function hasReveal(value: unknown): value is Pick<Secret, "reveal"> {
  return typeof value === "object" && value !== null && "reveal" in value;
}
