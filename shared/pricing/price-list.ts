import type { JobPrice, PriceList } from "../config/job-pricing-toml.ts";
import { UINT256_MAX } from "../ethereum/encoding.ts";
import { jobKey } from "../job-call/job-ids.ts";
import { type TokenRate, tokenAmount } from "./token-amount.ts";

/** What a job costs in one token: `amount` in the token's smallest units. */
export type Offer<Token> = { token: Token; amount: bigint };

export function toPriceList(jobs: Iterable<JobPrice>): PriceList {
  return new Map([...jobs].map((job) => [jobKey(job), job]));
}

/** A rate of the token at `index` in x402.toml; one of the two its rate is always between, where it changes. */
export type RateAt = TokenRate & { index: number; bound?: "min_rate" | "max_rate" };

/** What no authorization can carry, or would give the job away. */
export function priceProblems(jobs: Iterable<JobPrice>, rates: readonly RateAt[]) {
  return [...jobs].flatMap(({ serviceId, jobIndex, priceWei }) =>
    rates.flatMap(({ index, bound, ...token }) => {
      const problem = amountProblem(tokenAmount(priceWei, token));
      if (problem === undefined) return [];
      const message = `${problem} of accepted_tokens[${index}] in x402.toml${bound ? ` at its ${bound}` : ""}`;
      return [{ path: [String(serviceId), String(jobIndex)], message }];
    }),
  );
}

/** Why no authorization can be for this amount, if none can. */
export function amountProblem(amount: bigint): string | undefined {
  if (amount < 1n) return "comes to no unit";
  return amount > UINT256_MAX ? "comes to more than 2^256-1 units" : undefined;
}
