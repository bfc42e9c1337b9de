import type { FacilitatorConfig } from "../../../shared/config/facilitators.ts";
import { type FacilitatorRequest, requestText } from "../../../shared/payments/payment.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { ErrorCode } from "../../../shared/platform/errors/codes.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { type Backoff, backoffMs } from "../../../shared/platform/time/backoff.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { createFairLimit } from "../fair-limit.ts";
import type { Authorize } from "./authorize.ts";
import { type Attempt, createBreaker } from "./breaker.ts";
import { toCanaryPayment } from "./canary-payment.ts";
import {
  createFacilitatorClient,
  type NoAnswer,
  readSettled,
  readSupported,
  readVerified,
  type SettleAnswer,
  type VerifyAnswer,
} from "./client.ts";
import { createCredentials } from "./credentials.ts";
import { type Kinds, type PaymentKind, toKinds } from "./kinds.ts";

/**
 * Limit on concurrent verify requests to one facilitator. A client needs no money to cause any number of them. If a facilitator
 * answers within 100 ms, this limit allows over a thousand per second. If it is slower, a higher limit would not help: more
 * connections and bodies would only wait for it.
 */
const VERIFIES_MAX = 128;
/** Limit on the verifications from one client address that wait for a slot. */
const WAITING_MAX = 256;
const WAIT_MS = 2000;

/**
 * Pauses between two probes of an unreachable facilitator. A probe asks for its supported kinds. The pauses grow until the
 * facilitator answers a verify or settle request. An answer to a probe does not make them short again.
 */
const PROBE_BACKOFF: Backoff = { baseMs: 500, capMs: 30_000 };
const PROBE_MIN_MS = 100;
const REFRESH_MS = 5 * 60_000;

/** Payer and client address of a verification. */
export type PayingClient = {
  payer: string;
  /** Rate-limit key of the client's address. Free slots go to the waiting addresses in turn. */
  address: string;
};

export type FacilitatorOptions = {
  verifyTimeoutMs: number;
  settleTimeoutMs: number;
  /** Returns headers in addition to those of the configuration. */
  authorize: Authorize | undefined;
  clock: Clock;
  log: Logger;
  /** Maximum time that a verification waits for a slot. */
  waitMs?: number;
};

/**
 * Reason why a facilitator has not judged a payment. Either it gave no usable answer, or no request was sent to it. If none was
 * sent, `code` may say why.
 */
export type NoVerdict = NoAnswer & { code?: ErrorCode };

/** State of a facilitator, for operators. */
export type FacilitatorState = {
  origin: string;
  ok: boolean;
  reason: string | undefined;
  /** `closed`: all verifications start. `open`: none starts. `half_open`: trial verifications start, one at a time. */
  breaker: "closed" | "open" | "half_open";
};

/**
 * One facilitator, with its own concurrency limit and breaker. A timer asks it for its supported kinds from time to time, which
 * also shows whether it is reachable.
 */
export class Facilitator {
  /** Origin of the facilitator's URL. The path is left out because it may hold a key. */
  readonly name: string;
  readonly #options: FacilitatorOptions;
  readonly #client;
  readonly #onKinds: () => void;
  readonly #verifies;
  readonly #breaker = createBreaker();
  #kinds: Kinds | undefined;
  #failure: string | undefined;
  /**
   * The verify request whose failure made the facilitator suspect, until the facilitator has judged a payment again. Canary
   * payments are made for the same offer.
   */
  #suspectRequest: FacilitatorRequest | undefined;
  #inFlight = 0;
  #probes = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  /** `onKinds` is called whenever the supported kinds have been read. */
  constructor(config: FacilitatorConfig, options: FacilitatorOptions, onKinds: () => void) {
    const { clock, authorize, waitMs = WAIT_MS } = options;
    this.name = new URL(config.url).origin;
    this.#options = options;
    this.#onKinds = onKinds;
    const credentials = createCredentials(config, authorize, clock);
    this.#client = createFacilitatorClient({ url: config.url, credentials, clock });
    this.#verifies = createFairLimit({
      max: VERIFIES_MAX,
      waitingMax: WAITING_MAX,
      waitMs,
      what: "verifies",
      code: "payment.unavailable",
    });
  }

  /** Resolves once the facilitator has reported its kinds, or has not answered in time. */
  start(): Promise<void> {
    return this.#readKinds();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#client.close();
  }

  get state(): FacilitatorState {
    const reason = this.#failure ?? (this.#kinds === undefined ? "not reached yet" : undefined);
    return { origin: this.name, ok: reason === undefined, reason, breaker: this.#breaker.state };
  }

  /** Whether a payer would have to wait here, because all slots are in use or because the facilitator is probably down. */
  get isSlow(): boolean {
    return !this.state.ok || this.#inFlight >= VERIFIES_MAX;
  }

  /** Whether the facilitator supports this kind of payment. Undefined until it has reported its kinds. */
  supports(kind: PaymentKind): boolean | undefined {
    return this.#kinds?.supports(kind);
  }

  /** Asks the facilitator to verify a payment. Sends nothing while the breaker is open, or if no slot becomes free in time. */
  async verify(
    request: FacilitatorRequest,
    { payer, address }: PayingClient,
  ): Promise<VerifyAnswer | NoVerdict> {
    if (!this.#breaker.admits(payer)) return this.#withheldVerify();
    try {
      return await this.#verifies.within(address, () => this.#verifyInSlot(request, payer));
    } catch (refusal) {
      if (!(refusal instanceof AppError)) throw refusal;
      const { code, message: reason, retryAfterMs } = refusal;
      return {
        kind: "none",
        reason,
        code,
        isUnsent: true,
        ...(retryAfterMs !== undefined && { retryAfterMs }),
      };
    }
  }

  async settle(request: FacilitatorRequest): Promise<SettleAnswer> {
    const answer = await this.#client.exchange("settle", requestText(request), this.#options.settleTimeoutMs);
    if (answer.kind === "none") this.#markUnreachable(answer.reason, { probe: false });
    else this.#settleAnswered();
    return readSettled(answer);
  }

  async #verifyInSlot(request: FacilitatorRequest, payer: string): Promise<VerifyAnswer | NoVerdict> {
    const attempt = this.#breaker.begin(payer);
    if (attempt === undefined) return this.#withheldVerify();
    this.#inFlight += 1;
    const verified = await this.#sendVerify(request).finally(() => {
      this.#inFlight -= 1;
    });
    if (verified.kind === "none") this.#verifyFailed(attempt, verified, request);
    else this.#verifyJudged();
    return verified;
  }

  async #sendVerify(request: FacilitatorRequest): Promise<VerifyAnswer | NoAnswer> {
    return readVerified(
      await this.#client.exchange("verify", requestText(request), this.#options.verifyTimeoutMs),
    );
  }

  #withheldVerify(): NoVerdict {
    const reason = `not asked, because it answers no verify request (${this.#failure})`;
    return { kind: "none", reason, isUnsent: true };
  }

  #verifyJudged(): void {
    const wasTripped = this.#breaker.state !== "closed";
    this.#breaker.close();
    this.#suspectRequest = undefined;
    this.#probes = 0;
    this.#markReachable();
    if (wasTripped) this.#readKindsIn(REFRESH_MS);
  }

  #verifyFailed(attempt: Attempt, { reason, isOfRequest }: NoAnswer, request: FacilitatorRequest): void {
    if (isOfRequest || this.#closed) {
      attempt.ended();
      return;
    }
    const isSuspect = attempt.failed();
    this.#markUnreachable(reason, { probe: false });
    if (isSuspect && this.#suspectRequest === undefined) void this.#testWithCanary(request, reason);
  }

  /**
   * Tests a suspect facilitator with a canary payment, which the gateway makes itself. Opens the breaker unless the facilitator
   * judges that payment. The failed requests alone do not prove a fault, because payers wrote them and may have made them fail.
   */
  async #testWithCanary(request: FacilitatorRequest, reason: string): Promise<void> {
    this.#suspectRequest = request;
    if (await this.#answersCanary()) return;
    if (this.#closed || this.#suspectRequest === undefined) return;
    this.#breaker.open();
    this.#failure = reason;
    this.#options.log.warn("facilitator.down", { facilitator: this.name, reason, verifies: "withheld" });
    this.#probeLater();
  }

  /** Sends a canary payment, and resolves with whether the facilitator has judged it. */
  async #answersCanary(): Promise<boolean> {
    if (this.#suspectRequest === undefined) return false;
    const { kind } = await this.#sendVerify(toCanaryPayment(this.#suspectRequest, this.#options.clock()));
    if (kind !== "none") this.#verifyJudged();
    return kind !== "none";
  }

  async #readKinds(): Promise<void> {
    const supported = readSupported(
      await this.#client.exchange("supported", undefined, this.#options.verifyTimeoutMs),
    );
    if (this.#closed) return;
    if ("kind" in supported) return this.#probeFailed(supported.reason);
    this.#kinds = toKinds(supported);
    this.#onKinds();
    if (this.#breaker.state !== "closed") return this.#tryVerifying();
    this.#markReachable();
    this.#readKindsIn(REFRESH_MS);
  }

  /**
   * Half-opens the breaker after an answer to a probe: the facilitator is reachable again, but may still not answer verify
   * requests. Then tries a canary payment, whose judgement would close the breaker.
   */
  async #tryVerifying(): Promise<void> {
    this.#breaker.halfOpen();
    if ((await this.#answersCanary()) || this.#closed || this.#breaker.state === "closed") return;
    this.#probeLater();
  }

  #probeFailed(reason: string): void {
    if (this.#breaker.state !== "closed") this.#breaker.open();
    this.#markUnreachable(reason, { probe: true });
  }

  /**
   * Notes that the facilitator has answered a settle request. This shows that it is reachable, but not that it answers verify
   * requests. So a breaker that is not closed stays as it is.
   */
  #settleAnswered(): void {
    if (this.#breaker.state !== "closed") return;
    this.#probes = 0;
    this.#markReachable();
  }

  #markReachable(): void {
    if (this.#failure !== undefined) this.#options.log.info("facilitator.up", { facilitator: this.name });
    this.#failure = undefined;
  }

  /**
   * Marks the facilitator as unreachable. Only the first failure is logged. The first failure, and then each failed probe,
   * schedule the next probe. Other failed requests do not postpone it.
   */
  #markUnreachable(reason: string, { probe }: { probe: boolean }): void {
    if (this.#closed) return;
    const before = this.#failure;
    this.#failure = reason;
    if (before === undefined) this.#options.log.warn("facilitator.down", { facilitator: this.name, reason });
    if (before === undefined || probe) this.#probeLater();
  }

  #probeLater(): void {
    this.#probes += 1;
    this.#readKindsIn(Math.max(PROBE_MIN_MS, backoffMs(PROBE_BACKOFF, this.#probes, Math.random)));
  }

  #readKindsIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#readKinds(), ms);
  }
}
