/** A facilitator becomes suspect after this many verify requests without an answer, if it has judged no payment between them. */
const FAILURES_MAX = 5;
/**
 * Number of failures that count for the same payer. It is below `FAILURES_MAX`, so that one payer alone cannot make a facilitator
 * suspect.
 */
const FAILURES_PER_PAYER_MAX = 2;

/** A verify request in flight. When it ends, exactly one of the three methods must be called. */
export type Attempt = {
  /** The facilitator has judged the payment. */
  judged(): void;
  /**
   * The facilitator has not answered. Returns true if it becomes suspect. The caller must then test it with a canary payment: one
   * that the gateway makes itself, so that no payer's data can be the cause of a failure (canary-payment.ts).
   */
  failed(): boolean;
  /**
   * The verify request has ended without showing a fault of the facilitator. The facilitator answered that the request is faulty,
   * or the gateway is closing.
   */
  ended(): void;
};

export type Breaker = {
  /**
   * `closed`: all verifications start. `open`: none starts. `half_open`: trial verifications start, only one at a time. Each
   * payer may start only one of them until `halfOpen` is called again.
   */
  readonly state: "closed" | "open" | "half_open";
  /** Whether a verification for this payer may start now. */
  admits(payer: string): boolean;
  /** Starts a verification, or returns undefined if none may start. */
  begin(payer: string): Attempt | undefined;
  /** Closes the breaker because the facilitator has judged a payment. All verifications may start again. */
  close(): void;
  open(): void;
  /**
   * Allows trial verifications. It is called when the facilitator has answered a probe, which asks for its supported kinds. That
   * answer does not show whether the facilitator also answers verify requests.
   */
  halfOpen(): void;
};

/**
 * Creates a breaker, which stops verifications at a facilitator that does not answer them. Otherwise each payer would have to
 * wait for a time-out.
 * A payer's data can make a facilitator slow, or make it fail, for that payment only. So a failure counts only if the facilitator
 * has judged no payment since the request was sent, and at most two failures count for the same payer. After `FAILURES_MAX`
 * counted failures, the facilitator is suspect. The breaker does not open by itself then: its user tests the facilitator first,
 * and calls `open` if the test fails.
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
