import type { FacilitatorConfig } from "../../../shared/config/facilitators.ts";
import type { FacilitatorRequest } from "../../../shared/payments/payment.ts";
import { AppError, RETRY_AFTER_MS } from "../../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import type { SettleAnswer, VerifyAnswer } from "./client.ts";
import {
  Facilitator,
  type FacilitatorOptions,
  type FacilitatorState,
  type NoVerdict,
  type PayingClient,
} from "./facilitator.ts";
import type { Kinds, PaymentKind } from "./kinds.ts";

const RETRY_AFTER_MS_MAX = 60_000;

type Options = FacilitatorOptions & {
  facilitators: readonly FacilitatorConfig[];
  /** Called whenever a facilitator has reported its kinds, with all kinds of payment that can be offered now. */
  onKinds?: (offerable: Kinds) => void;
};

/**
 * All configured facilitators. If one does not answer a verify request, another one is asked. A settle request is never sent to
 * another facilitator than the one that verified the payment.
 */
export class Facilitators {
  readonly #byUrl: ReadonlyMap<string, Facilitator>;
  readonly #log: Logger;
  #offerable: Kinds;

  constructor({ facilitators, onKinds, ...options }: Options) {
    const onRead = () => {
      this.#offerable = this.#toOfferable();
      onKinds?.(this.#offerable);
    };
    this.#byUrl = new Map(facilitators.map((each) => [each.url, new Facilitator(each, options, onRead)]));
    this.#log = options.log;
    this.#offerable = this.#toOfferable();
  }

  /** Resolves once each facilitator has reported its kinds, or has not answered in time. */
  async start(): Promise<void> {
    await Promise.all(this.#all.map((facilitator) => facilitator.start()));
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((facilitator) => facilitator.close()));
  }

  /** Whether any facilitator has reported that it supports this kind of payment. */
  supports(kind: PaymentKind): boolean {
    return this.#all.some((facilitator) => facilitator.supports(kind));
  }

  /**
   * Returns the kinds of payment that can be offered. A kind can be offered if some facilitator supports it, or has not reported
   * its kinds yet. A kind that needs an extension can be offered only if a facilitator has reported that it supports it. The
   * returned object stays the same until a facilitator reports its kinds again.
   */
  offerable(): Kinds {
    return this.#offerable;
  }

  /** Returns the state of each facilitator: its origin, whether and why it is unavailable, and its breaker. */
  available(): FacilitatorState[] {
    return this.#all.map(({ state }) => state);
  }

  /**
   * Asks the facilitators whether the payment could be settled now. Resolves with the URL of the facilitator that judged it
   * valid. The same facilitator must settle it. Throws `payment.rejected` if the payment is at fault, and `payment.unavailable`
   * if the offer is, because the operator must correct it. Also throws all errors of `judge`.
   */
  async verify(
    request: FacilitatorRequest,
    { token, ...kind }: Offered,
    client: PayingClient,
  ): Promise<string> {
    const { verified, url } = await this.judge(request, kind, client);
    if (verified.kind === "valid") return url;
    const { reason, fault } = verified;
    if (fault === "payer")
      throw new AppError("payment.rejected", { reason, publicDetail: `the facilitator says: ${reason}` });
    const { network, asset, symbol } = token;
    this.#log.error("offer.invalid", { network, asset, symbol, reason });
    throw new AppError("payment.unavailable", {
      reason: `the facilitator refuses the offer, not the payment: ${reason}; see accepted_tokens in x402.toml`,
      publicDetail: "The offer is wrong, not the payment. The operator has been notified.",
      retryAfterMs: 60_000,
    });
  }

  /**
   * Asks the facilitators that support this kind of payment, one after the other, until one has judged the payment. Resolves with
   * its judgement and its URL. Facilitators that are reachable and have a free slot come first, in the order of the
   * configuration. Throws `Unjudged` if none has judged the payment. The error's code is `request.rate_limited` if at each
   * facilitator too many verifications of this client address wait. Otherwise it is `payment.unavailable`.
   */
  async judge(
    request: FacilitatorRequest,
    kind: Omit<PaymentKind, "x402Version">,
    client: PayingClient,
  ): Promise<{ verified: VerifyAnswer; url: string }> {
    const { x402Version } = request;
    const supporting = [...this.#byUrl].filter(([, each]) => each.supports({ x402Version, ...kind }));
    const failures: Failure[] = [];
    for (const [url, facilitator] of availableFirst(supporting)) {
      const verified = await facilitator.verify(request, client);
      if (verified.kind !== "none") return { verified, url };
      failures.push({ name: facilitator.name, ...verified });
    }
    throw new Unjudged(failures);
  }

  /** Whether this facilitator is configured. */
  has(url: string): boolean {
    return this.#byUrl.has(url);
  }

  /**
   * Sends one settle request to the facilitator with this URL. Never rejects: without a usable answer, it resolves with an
   * unknown outcome.
   */
  async settle(request: FacilitatorRequest, url: string): Promise<SettleAnswer> {
    const facilitator = this.#byUrl.get(url);
    if (facilitator) return facilitator.settle(request);
    return { kind: "unknown", reason: "the facilitator that verified it is no longer configured" };
  }

  get #all(): readonly Facilitator[] {
    return [...this.#byUrl.values()];
  }

  #toOfferable(): Kinds {
    const maySupport = (kind: PaymentKind) => kind.extension === undefined;
    return { supports: (kind) => this.#all.some((each) => each.supports(kind) ?? maySupport(kind)) };
  }
}

/**
 * Kind of a payment, and its token. `network` is the name in the payment: a CAIP-2 name such as `eip155:8453`, or the network's
 * name in version 1 of the protocol. The token's own `network` is always a CAIP-2 name.
 */
type Offered = Omit<PaymentKind, "x402Version"> & {
  token: { network: string; asset: string; symbol: string };
};

/**
 * Moves the facilitators that are unreachable or have no free slot to the end. If they came first, every payer would wait for
 * them before another one is asked.
 */
function availableFirst(facilitators: readonly (readonly [string, Facilitator])[]) {
  const isSlow = ([, facilitator]: readonly [string, Facilitator]) => facilitator.isSlow;
  return [...facilitators.filter((each) => !isSlow(each)), ...facilitators.filter(isSlow)];
}

type Failure = NoVerdict & { name: string };

/** Error of a payment that no facilitator has judged. */
export class Unjudged extends AppError {
  /** Whether the payment was sent to any facilitator. */
  readonly wasSent: boolean;
  /** Whether any facilitator answered that the request itself is faulty, which the payer may have caused. */
  readonly isOfRequest: boolean;

  constructor(failures: readonly Failure[]) {
    const reasons = failures.map(({ name, reason }) => `${name}: ${reason}`);
    const reason = reasons.join("; ") || "no facilitator supports this kind of payment";
    const retryTimes = failures.flatMap(({ retryAfterMs }) => retryAfterMs ?? []);
    const retryAfterMs = Math.min(
      RETRY_AFTER_MS_MAX,
      ...(retryTimes.length > 0 ? retryTimes : [RETRY_AFTER_MS]),
    );
    const isOverLimit = failures.length > 0 && failures.every(({ code }) => code === "request.rate_limited");
    super(isOverLimit ? "request.rate_limited" : "payment.unavailable", { reason, retryAfterMs });
    this.wasSent = failures.some(({ isUnsent }) => !isUnsent);
    this.isOfRequest = failures.some(({ isOfRequest }) => isOfRequest === true);
  }
}
