type Details = {
  outcome: "refused" | "unknown" | "failed";
  cause?: unknown;
};

/** Why a purchase ended without its job, as a sentence for the one who pays. */
export class PayFailure extends Error {
  override readonly name = "PayFailure";
  readonly outcome: Details["outcome"];

  constructor(message: string, { outcome, ...rest }: Details) {
    super(message, rest);
    this.outcome = outcome;
  }
}
