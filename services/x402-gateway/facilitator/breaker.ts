/** A facilitator becomes suspect after this many verifications without an answer, if it has judged no payment between them. */
const FAILURES_MAX = 5;
/** Limit on the failures that count for one payer, so that one payer cannot stop a facilitator. */
const FAILURES_PER_PAYER_MAX = 2;

/** A verification in flight. Exactly one of the three methods must be called when it has ended. */
export type Attempt = {
  /** The facilitator has judged the payment. */
  judged(): void;
  /**
   * The facilitator has not answered. Returns true if it becomes suspect: the caller must then test it with a payment that no payer wrote.
   */
  failed(): boolean;
  /** The verification shows no fault of the facilitator: the facilitator called the request faulty, or was not called. */
  ended(): void;
};

export type Breaker = {
  /** `open`: no verification starts. `half_open`: one verification runs at a time, and each payer may start one until the next probe. */
  readonly state: "closed" | "open" | "half_open";
  /** Whether a verification for this payer may start now. */
  admits(payer: string): boolean;
  /** Starts a verification, or returns undefined if none may start. */
  begin(payer: string): Attempt | undefined;
  /** Admits all verifications again, because the facilitator has judged a payment. */
  close(): void;
  open(): void;
  /** Allows trial verifications after the facilitator has answered a probe. The probe does not show that it answers verifications. */
  halfOpen(): void;
};

/**
 * Stops verifications at a facilitator that does not answer them, so that payers do not each wait for a time-out. A payer's data can make a
 * facilitator slow, or make it fail, for that payment. So a failure counts only if the facilitator has judged nothing since the request was
 * sent. At most two failures count for the same payer. After `FAILURES_MAX` counted failures, the facilitator is suspect. The breaker opens
 * only when its user calls `open`.
 */
export function createBreaker(): Breaker {
  let state: Breaker["state"] = "closed";
  let judgements = 0;
  /** Failures since the last judgement, by payer. */
  const failures = new Map<string, number>();
  let trial: Attempt | undefined;
  const triedPayers = new Set<string>();

  function close(): void {
    state = "closed";
    judgements += 1;
    failures.clear();
    trial = undefined;
    triedPayers.clear();
  }

  function countFailure(payer: string): boolean {
    failures.set(payer, Math.min(FAILURES_PER_PAYER_MAX, (failures.get(payer) ?? 0) + 1));
    const counted = [...failures.values()].reduce((sum, each) => sum + each, 0);
    return counted >= FAILURES_MAX;
  }

  function admits(payer: string): boolean {
    return state === "closed" || (state === "half_open" && trial === undefined && !triedPayers.has(payer));
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
      triedPayers.add(payer);
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
      triedPayers.clear();
    },
  };
}
