import { rawQuery } from "../../../shared/http/headers.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { Job, Token } from "./catalog.ts";

/** Which offers of a job one 402 has. */
export type Narrowed = {
  job: Job;
  /** Names this choice among those of the job; undefined if there are too many like it to be remembered. */
  key: string | undefined;
};

export type NarrowOffers = ReturnType<typeof createNarrowOffers>;

/**
 * Narrows a job's offers to the networks of `?network=eip155:8453`, repeated or with commas, and then to the first `offersMax`
 * in the order of the configuration: the header of a 402 grows with each offer, and proxies refuse large ones.
 */
export function createNarrowOffers(tokens: readonly Token[], offersMax: number | undefined) {
  const accepted = [...new Set(tokens.map(({ network }) => network))];
  const most = offersMax ?? Number.POSITIVE_INFINITY;

  function narrowed(job: Job, networks: readonly string[]): Narrowed {
    const isAll = networks.length === accepted.length;
    const found = isAll ? job.prices : job.prices.filter(({ token }) => networks.includes(token.network));
    const prices = found.slice(0, offersMax);
    // A stranger may ask for any set of networks; only as many choices are remembered as there are networks, and one more.
    const key = isAll ? "" : networks.length === 1 ? networks[0] : undefined;
    return { job: prices.length === job.prices.length ? job : { ...job, prices }, key };
  }

  return {
    /** For an unpaid request. Throws `payment.network_not_offered` if no token is taken on any network that the target names. */
    wanted(job: Job, target: string): Narrowed {
      const named = networksIn(target);
      if (named === undefined) return job.prices.length <= most ? { job, key: "" } : narrowed(job, accepted);
      const networks = accepted.filter((network) => named.has(network));
      if (networks.length === 0) throw notOffered(accepted);
      return narrowed(job, networks);
    },

    /** For a payment that is refused: all networks rather than none. */
    wantedOrAll(job: Job, target: string): Narrowed {
      const named = networksIn(target);
      const networks = accepted.filter((network) => named === undefined || named.has(network));
      const chosen = narrowed(job, networks);
      return chosen.job.prices.length > 0 ? chosen : narrowed(job, accepted);
    },
  };
}

/** Undefined if the target names none. */
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
