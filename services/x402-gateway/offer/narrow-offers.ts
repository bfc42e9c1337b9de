import { rawQuery } from "../../../shared/http/headers.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { Job, Token } from "./catalog.ts";

/** A selection of a job's offers for one 402. */
export type Narrowed = {
  job: Job;
  /**
   * Key under which the 402 of this selection may be cached, different for each selection of the same job. Undefined if it must
   * not be cached.
   */
  key: string | undefined;
};

export type NarrowOffers = ReturnType<typeof createNarrowOffers>;

/**
 * Creates the functions that select the offers of a 402. If the query names networks (`?network=eip155:8453`, repeated or with
 * commas), only offers on these networks are kept. At most `offersMax` are kept: the first ones
 * in the order of the configuration. This limit exists because the header of a 402 grows with each offer, and proxies refuse large headers.
 */
export function createNarrowOffers(tokens: readonly Token[], offersMax: number | undefined) {
  const accepted = [...new Set(tokens.map(({ network }) => network))];
  const most = offersMax ?? Number.POSITIVE_INFINITY;

  function narrowed(job: Job, networks: readonly string[]): Narrowed {
    const isAll = networks.length === accepted.length;
    const found = isAll ? job.prices : job.prices.filter(({ token }) => networks.includes(token.network));
    const prices = found.slice(0, offersMax);
    // A client can name any set of networks. If each set had a cache key, a client could fill the cache. So only single networks
    // and the set of all networks have one.
    const key = isAll ? "" : networks.length === 1 ? networks[0] : undefined;
    return { job: prices.length === job.prices.length ? job : { ...job, prices }, key };
  }

  return {
    /**
     * Returns the offers for a request without a payment. Throws `payment.network_not_offered` if the query names only networks
     * on which no token is accepted.
     */
    select(job: Job, target: string): Narrowed {
      const named = networksIn(target);
      if (named === undefined) return job.prices.length <= most ? { job, key: "" } : narrowed(job, accepted);
      const networks = accepted.filter((network) => named.has(network));
      if (networks.length === 0) throw notOffered(accepted);
      return narrowed(job, networks);
    },

    /**
     * Returns the offers for the 402 that refuses a payment. If the query leaves no offer, it is ignored, because the client has
     * to learn why its payment was refused.
     */
    selectOrAll(job: Job, target: string): Narrowed {
      const named = networksIn(target);
      const networks = accepted.filter((network) => named === undefined || named.has(network));
      const chosen = narrowed(job, networks);
      return chosen.job.prices.length > 0 ? chosen : narrowed(job, accepted);
    },
  };
}

/** Returns the networks that the query names. Undefined if it names none. */
function networksIn(target: string): Set<string> | undefined {
  const query = rawQuery(target);
  if (query === "") return undefined;
  const named = new URLSearchParams(query).getAll("network");
  return named.length === 0 ? undefined : new Set(named.flatMap((value) => value.split(",")));
}

function notOffered(accepted: readonly string[]): AppError {
  const detail = `no token is accepted on the networks of the query; accepted networks: ${accepted.join(", ")}`;
  return AppError.public("payment.network_not_offered", detail);
}
