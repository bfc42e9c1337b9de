type Details = {
  outcome: "refused" | "unknown" | "failed";
  /** Where the payment can be followed, if an answer said so. */
  statusUrl?: string | undefined;
  cause?: unknown;
};

/** Why a purchase ended without its job, as a sentence for the one who pays. */
export class PayFailure extends Error {
  override readonly name = "PayFailure";
  readonly outcome: Details["outcome"];
  readonly statusUrl: string | undefined;

  constructor(message: string, { outcome, statusUrl, ...rest }: Details) {
    super(message, rest);
    this.outcome = outcome;
    this.statusUrl = statusUrl;
  }
}
