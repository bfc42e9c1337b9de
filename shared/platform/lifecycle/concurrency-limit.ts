import { AppError, RETRY_AFTER_MS } from "../errors/app-error.ts";
import type { ErrorCode } from "../errors/codes.ts";

type Options = {
  max: number;
  /** How many of them one party may have. */
  perPartyMax?: number;
  /** What is limited, as the log names it: "verifies". */
  what: string;
  /** What a caller is refused with when the limit is reached. */
  code: ErrorCode;
};

export type ConcurrencyLimit = {
  /**
   * Takes a place and returns what gives it back; giving it back twice does nothing. Throws if there is none for this party. `perPartyMax`
   * does not bound those without a party.
   */
  enter(party?: string): () => void;
  /** The same for as long as this work runs, for no party. */
  within<Result>(work: () => Promise<Result>): Promise<Result>;
};

/** Lets at most `max` callers do something at once. Nobody waits for a place: the others are told to come back. */
export function createConcurrencyLimit({ max, perPartyMax = max, what, code }: Options): ConcurrencyLimit {
  const parties = new Map<string, number>();
  let inside = 0;

  function add(party: string | undefined, more: 1 | -1): void {
    inside += more;
    if (party === undefined) return;
    const own = (parties.get(party) ?? 0) + more;
    if (own === 0) parties.delete(party);
    else parties.set(party, own);
  }

  function assertRoom(party: string | undefined): void {
    const isPartysFault = party !== undefined && (parties.get(party) ?? 0) >= perPartyMax;
    if (inside < max && !isPartysFault) return;
    const reason = isPartysFault ? `${perPartyMax} ${what} of ${party}` : `${max} ${what}`;
    throw new AppError(code, { reason: `${reason} are in flight`, retryAfterMs: RETRY_AFTER_MS });
  }

  function enter(party?: string): () => void {
    assertRoom(party);
    add(party, 1);
    let isInside = true;
    return () => {
      if (isInside) add(party, -1);
      isInside = false;
    };
  }

  return {
    enter,
    async within(work) {
      const leave = enter();
      try {
        return await work();
      } finally {
        leave();
      }
    },
  };
}
