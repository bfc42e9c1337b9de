/** So many verifies without an answer, one after the other, make a facilitator suspect. */
const FAILURES_MAX = 5;
/** So many of them count of one payer: none can bring a facilitator down alone. */
const FAILURES_OF_ONE_MAX = 2;

/** A verify that is under way. Exactly one of the three is called when it has ended. */
export type Attempt = {
  /** The facilitator has judged the payment. */
  judged(): void;
  /** It has not answered. True if this makes it suspect: it is then to be asked something that no payer has written. */
  failed(): boolean;
  /** It has answered that the request is at fault, or was not asked: neither tells anything of it. */
  ended(): void;
};

export type Breaker = {
  /** `open`: no verify is begun. `half_open`: one at a time, and one of each payer until the next probe. */
  readonly state: "closed" | "open" | "half_open";
  /** Whether a verify of this payer may begin now. */
  admits(payer: string): boolean;
  /** Begins a verify, if one may begin. */
  begin(payer: string): Attempt | undefined;
  /** The facilitator has judged something: verifies are begun as usual. */
  close(): void;
  open(): void;
  /** A probe was answered, which was no verify. */
  halfOpen(): void;
};

/**
 * Keeps payers from waiting, each for a time-out, for a facilitator that answers no verify. What a payer sends can make a
 * facilitator slow, or fail, for his own payment. So a failure counts only if nothing was judged since its request was
 * sent, at most two count of one payer, and they make a suspect: the breaker opens when it is told to.
 */
export function createBreaker(): Breaker {
  let state: Breaker["state"] = "closed";
  let judgements = 0;
  /** Since the last judgement. */
  const failures = new Map<string, number>();
  let trial: Attempt | undefined;
  const tried = new Set<string>();

  function close(): void {
    state = "closed";
    judgements += 1;
    failures.clear();
    trial = undefined;
    tried.clear();
  }

  function countFailure(payer: string): boolean {
    failures.set(payer, Math.min(FAILURES_OF_ONE_MAX, (failures.get(payer) ?? 0) + 1));
    const counted = [...failures.values()].reduce((sum, each) => sum + each, 0);
    return counted >= FAILURES_MAX;
  }

  function admits(payer: string): boolean {
    return state === "closed" || (state === "half_open" && trial === undefined && !tried.has(payer));
  }

  function begin(payer: string): Attempt | undefined {
    if (!admits(payer)) return undefined;
    const before = judgements;
    const end = () => {
      if (trial === attempt) trial = undefined;
    };
    const attempt: Attempt = {
      judged: close,
      failed() {
        end();
        return state === "closed" && judgements === before && countFailure(payer);
      },
      ended: end,
    };
    if (state === "half_open") {
      trial = attempt;
      tried.add(payer);
    }
    return attempt;
  }

  return {
    get state() {
      return state;
    },
    admits,
    begin,
    close,
    open() {
      state = "open";
    },
    halfOpen() {
      state = "half_open";
      tried.clear();
    },
  };
}
