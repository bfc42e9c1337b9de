import { type TokenRate, tokenAmount, UINT256_MAX } from "./token-amount.ts";

export type JobIds = { serviceId: number; jobIndex: number };
export type JobPrice = JobIds & { priceWei: bigint };

/** What a job costs in one token: `amount` in the token's smallest units. */
export type Offer<Token> = { token: Token; amount: bigint };
export type PricedJob<Token> = JobPrice & { offers: readonly Offer<Token>[] };

/** Every job that has a price, by `jobKey`; its offers in the order of the tokens. */
export type PriceList<Token> = ReadonlyMap<string, PricedJob<Token>>;

/** A job's key: the two ids as they stand in its path. */
export function jobKey({ serviceId, jobIndex }: JobIds): string {
  return `${serviceId}/${jobIndex}`;
}

export function toPriceList<Token extends TokenRate>(
  jobs: Iterable<JobPrice>,
  tokens: readonly Token[],
): PriceList<Token> {
  const priced = [...jobs].map((job) => ({
    ...job,
    offers: tokens.map((token) => ({ token, amount: tokenAmount(job.priceWei, token) })),
  }));
  return new Map(priced.map((job) => [jobKey(job), job]));
}

/** What no authorization can carry, or would give the job away; `tokens` by their index in x402.toml. */
export function priceProblems(jobs: Iterable<JobPrice>, tokens: ReadonlyMap<number, TokenRate>) {
  return [...jobs].flatMap(({ serviceId, jobIndex, priceWei }) =>
    [...tokens].flatMap(([index, token]) => {
      const problem = amountProblem(tokenAmount(priceWei, token));
      if (problem === undefined) return [];
      const message = `${problem} of accepted_tokens[${index}] in x402.toml`;
      return [{ path: [String(serviceId), String(jobIndex)], message }];
    }),
  );
}

/** Why no authorization can be for this amount, if none can. */
export function amountProblem(amount: bigint): string | undefined {
  if (amount < 1n) return "comes to no unit";
  return amount > UINT256_MAX ? "comes to more than 2^256-1 units" : undefined;
}
