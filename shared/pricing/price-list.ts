import { type TokenRate, tokenAmount, UINT256_MAX } from "./token-amount.ts";

export type JobIds = { serviceId: number; jobIndex: number };
export type JobPrice = JobIds & { priceWei: bigint };

/** What a job costs in one token: `amount` in the token's smallest units. */
export type Offer<Token> = { token: Token; amount: bigint };

/** Every job that has a price, by `jobKey`. */
export type PriceList = ReadonlyMap<string, JobPrice>;

/** A job's key: the two ids as they stand in its path. */
export function jobKey({ serviceId, jobIndex }: { [Id in keyof JobIds]: number | bigint }): string {
  return `${serviceId}/${jobIndex}`;
}

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
