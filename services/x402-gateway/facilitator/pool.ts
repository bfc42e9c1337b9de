import type { FacilitatorConfig } from "../../../shared/config/facilitators.ts";
import type { FacilitatorRequest } from "../../../shared/payments/payment.ts";
import { AppError, RETRY_AFTER_MS } from "../../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import type { SettleAnswer, VerifyAnswer } from "./client.ts";
import {
  type Asker,
  Facilitator,
  type FacilitatorOptions,
  type FacilitatorState,
  type NoVerdict,
} from "./facilitator.ts";
import type { Kinds, PaymentKind } from "./kinds.ts";

const RETRY_AFTER_MS_MAX = 60_000;

type Options = FacilitatorOptions & {
  facilitators: readonly FacilitatorConfig[];
  /** Called with what can be offered, whenever a facilitator has said again what it takes. */
  onKinds?: (offerable: Kinds) => void;
};

/** One or more facilitators: verifying fails over, settling never does. */
export class Facilitators {
  readonly #byUrl: ReadonlyMap<string, Facilitator>;
  readonly #log: Logger;
  #offerable: Kinds;

  constructor({ facilitators, onKinds, ...options }: Options) {
    const learned = () => {
      this.#offerable = this.#toOfferable();
      onKinds?.(this.#offerable);
    };
    this.#byUrl = new Map(facilitators.map((each) => [each.url, new Facilitator(each, options, learned)]));
    this.#log = options.log;
    this.#offerable = this.#toOfferable();
  }

  /** Resolves once each has said what it takes, or has not answered in time. */
  async start(): Promise<void> {
    await Promise.all(this.#all.map((facilitator) => facilitator.start()));
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((facilitator) => facilitator.close()));
  }

  /** Whether any facilitator that was reached once says that it takes such payments. */
  supports(kind: PaymentKind): boolean {
    return this.#all.some((facilitator) => facilitator.supports(kind));
  }

  /**
   * What can be offered: a kind that some facilitator takes, or may take, as long as it has not said what it takes. Another
   * object as soon as any facilitator has said it anew.
   */
  offerable(): Kinds {
    return this.#offerable;
  }

  /** Each facilitator by its origin, why it cannot be counted on now, and whether it is asked. */
  available(): FacilitatorState[] {
    return this.#all.map(({ state }) => state);
  }

  /**
   * Asks whether the payment could settle now. Resolves with the URL of the facilitator that said yes, which is the one to
   * settle. Throws `payment.rejected`, `payment.unavailable` if the offer itself is at fault, and what `judge` throws.
   */
  async verify(request: FacilitatorRequest, { token, ...kind }: Offered, asker: Asker): Promise<string> {
    const { verified, url } = await this.judge(request, kind, asker);
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
   * Asks the facilitators that support such payments until one has answered; `url` says which. It asks those that answer
   * at present and have a free place first, in the order configured. Throws `Unjudged`: `payment.unavailable` if none
   * answered, and `request.rate_limited` if at each of them too many of this address wait already.
   */
  async judge(
    request: FacilitatorRequest,
    kind: Omit<PaymentKind, "x402Version">,
    asker: Asker,
  ): Promise<{ verified: VerifyAnswer; url: string }> {
    const { x402Version } = request;
    const able = [...this.#byUrl].filter(([, each]) => each.supports({ x402Version, ...kind }));
    const failures: Failure[] = [];
    for (const [url, facilitator] of quickFirst(able)) {
      const verified = await facilitator.verify(request, asker);
      if (verified.kind !== "none") return { verified, url };
      failures.push({ name: facilitator.name, ...verified });
    }
    throw new Unjudged(failures);
  }

  /** Whether this facilitator is configured. */
  has(url: string): boolean {
    return this.#byUrl.has(url);
  }

  /** Asks this one facilitator, once. Never rejects: anything that is not an answer is an unknown outcome. */
  async settle(request: FacilitatorRequest, url: string): Promise<SettleAnswer> {
    const facilitator = this.#byUrl.get(url);
    if (facilitator) return facilitator.settle(request);
    return { kind: "unknown", reason: "the facilitator that verified it is no longer configured" };
  }

  get #all(): readonly Facilitator[] {
    return [...this.#byUrl.values()];
  }

  #toOfferable(): Kinds {
    return { takes: (kind) => this.#all.some((facilitator) => facilitator.supports(kind) ?? true) };
  }
}

/** The kind of a payment, with the network as the payer names it: CAIP-2, or its name in version 1. */
type Offered = Omit<PaymentKind, "x402Version"> & {
  token: { network: string; asset: string; symbol: string };
};

/** Those in trouble are asked last, and those without a free place: every payer would wait for them. */
function quickFirst(facilitators: readonly (readonly [string, Facilitator])[]) {
  const isSlow = ([, facilitator]: readonly [string, Facilitator]) => facilitator.isSlow;
  return [...facilitators.filter((each) => !isSlow(each)), ...facilitators.filter(isSlow)];
}

type Failure = NoVerdict & { name: string };

/** No facilitator has judged a payment. */
export class Unjudged extends AppError {
  /** Whether any of them was sent the payment. */
  readonly wasAsked: boolean;
  /** Whether any of them said that the request is at fault. */
  readonly isOfRequest: boolean;

  constructor(failures: readonly Failure[]) {
    const reasons = failures.map(({ name, reason }) => `${name}: ${reason}`);
    const reason = reasons.join("; ") || "no facilitator supports this kind of payment";
    const asked = failures.flatMap(({ retryAfterMs }) => retryAfterMs ?? []);
    const retryAfterMs = Math.min(RETRY_AFTER_MS_MAX, ...(asked.length > 0 ? asked : [RETRY_AFTER_MS]));
    const isOverLimit = failures.length > 0 && failures.every(({ code }) => code === "request.rate_limited");
    super(isOverLimit ? "request.rate_limited" : "payment.unavailable", { reason, retryAfterMs });
    this.wasAsked = failures.some(({ isUnsent }) => !isUnsent);
    this.isOfRequest = failures.some(({ isOfRequest }) => isOfRequest === true);
  }
}
