import type { FacilitatorConfig } from "../../../shared/config/facilitators.ts";
import type { FacilitatorRequest } from "../../../shared/payments/payment.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { ErrorCode } from "../../../shared/platform/errors/codes.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { type Backoff, backoffMs } from "../../../shared/platform/time/backoff.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { createFairLimit } from "../fair-limit.ts";
import type { Authorize } from "./authorize.ts";
import { type Attempt, createBreaker } from "./breaker.ts";
import {
  createFacilitatorClient,
  type NoAnswer,
  readSettled,
  readSupported,
  readVerified,
  type SettleAnswer,
  type VerifyAnswer,
} from "./client.ts";
import { toControl } from "./control-payment.ts";
import { createCredentials } from "./credentials.ts";
import { type Kinds, type PaymentKind, toKinds } from "./kinds.ts";

/**
 * A key without money can ask for any number of verifies. This many at once are over a thousand a second if a facilitator
 * answers within 100 ms; if it is slower, more would only hold connections and bodies.
 */
const VERIFIES_MAX = 128;
/** Of one address, for a place among them. */
const WAITING_MAX = 256;
const WAIT_MS = 2000;

/** The pauses between two probes of a lost facilitator. Only an answer to verify or settle begins them anew. */
const PROBE_BACKOFF: Backoff = { baseMs: 500, capMs: 30_000 };
const PROBE_MIN_MS = 100;
const REFRESH_MS = 5 * 60_000;

/** Whom a verify counts for. */
export type Asker = {
  payer: string;
  /** Under which the client's address is counted: those who wait take turns by it. */
  address: string;
};

export type FacilitatorOptions = {
  verifyTimeoutMs: number;
  settleTimeoutMs: number;
  /** Gives headers beside those of the configuration. */
  authorize: Authorize | undefined;
  clock: Clock;
  log: Logger;
  /** How long a verify waits for a place. */
  waitMs?: number;
};

/** Why there is no judgement: it was asked and gave none, or it was not asked, and then perhaps refused with a code. */
export type NoVerdict = NoAnswer & { code?: ErrorCode };

/** How a facilitator is, for operators. */
export type FacilitatorState = {
  origin: string;
  ok: boolean;
  reason: string | undefined;
  /** Whether verifies are begun: all of them, none, or one at a time. */
  breaker: "closed" | "open" | "half_open";
};

/**
 * One facilitator, with a bound and a breaker of its own: whether it answers, and what it supports, which is learned and
 * refreshed in the background.
 */
export class Facilitator {
  /** Its origin: the path of its URL may hold a key. */
  readonly name: string;
  readonly #options: FacilitatorOptions;
  readonly #client;
  readonly #onKinds: () => void;
  readonly #verifies;
  readonly #breaker = createBreaker();
  #kinds: Kinds | undefined;
  #lost: string | undefined;
  /** What made it suspect; it is asked the same about nobody's payment. */
  #suspect: FacilitatorRequest | undefined;
  #underWay = 0;
  #attempts = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  /** `onKinds` is called when what it supports has been read anew. */
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

  /** Resolves once it has said what it takes, or has not answered in time. */
  start(): Promise<void> {
    return this.#learn();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#client.close();
  }

  get state(): FacilitatorState {
    const reason = this.#lost ?? (this.#kinds === undefined ? "not reached yet" : undefined);
    return { origin: this.name, ok: reason === undefined, reason, breaker: this.#breaker.state };
  }

  /** Whether a payer would have to wait: for a place, or for its time-out. */
  get isSlow(): boolean {
    return !this.state.ok || this.#underWay >= VERIFIES_MAX;
  }

  /** Undefined as long as it has never told its kinds. */
  supports(kind: PaymentKind): boolean | undefined {
    return this.#kinds?.takes(kind);
  }

  /** Nothing is sent while its breaker or its bound forbids it. */
  async verify(request: FacilitatorRequest, { payer, address }: Asker): Promise<VerifyAnswer | NoVerdict> {
    if (!this.#breaker.admits(payer)) return this.#withheld();
    try {
      return await this.#verifies.within(address, () => this.#askToVerify(request, payer));
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
    const answer = await this.#client.ask("settle", toBody(request), this.#options.settleTimeoutMs);
    if (answer.kind === "none") this.#lose(answer.reason, { probe: false });
    else this.#answered();
    return readSettled(answer);
  }

  async #askToVerify(request: FacilitatorRequest, payer: string): Promise<VerifyAnswer | NoVerdict> {
    const attempt = this.#breaker.begin(payer);
    if (attempt === undefined) return this.#withheld();
    this.#underWay += 1;
    const verified = await this.#ask(request).finally(() => {
      this.#underWay -= 1;
    });
    if (verified.kind === "none") this.#failed(attempt, verified, request);
    else this.#judged();
    return verified;
  }

  async #ask(request: FacilitatorRequest): Promise<VerifyAnswer | NoAnswer> {
    return readVerified(await this.#client.ask("verify", toBody(request), this.#options.verifyTimeoutMs));
  }

  #withheld(): NoVerdict {
    const reason = `not asked, because it answers no verify request (${this.#lost})`;
    return { kind: "none", reason, isUnsent: true };
  }

  #judged(): void {
    const wasShut = this.#breaker.state !== "closed";
    this.#breaker.close();
    this.#suspect = undefined;
    this.#attempts = 0;
    this.#found();
    if (wasShut) this.#learnIn(REFRESH_MS);
  }

  #failed(attempt: Attempt, { reason, isOfRequest }: NoAnswer, request: FacilitatorRequest): void {
    if (isOfRequest || this.#closed) {
      attempt.ended();
      return;
    }
    const isSuspect = attempt.failed();
    this.#lose(reason, { probe: false });
    if (isSuspect && this.#suspect === undefined) void this.#examine(request, reason);
  }

  /** What makes it suspect is written by payers. So it is asked about a payment of nobody's before its breaker opens. */
  async #examine(request: FacilitatorRequest, reason: string): Promise<void> {
    this.#suspect = request;
    if (await this.#isJudging()) return;
    if (this.#closed || this.#suspect === undefined) return;
    this.#breaker.open();
    this.#lost = reason;
    this.#options.log.warn("facilitator.down", { facilitator: this.name, reason, verifies: "withheld" });
    this.#probeLater();
  }

  /** Whether it judges a payment that no payer has written. */
  async #isJudging(): Promise<boolean> {
    if (this.#suspect === undefined) return false;
    const { kind } = await this.#ask(toControl(this.#suspect, this.#options.clock()));
    if (kind !== "none") this.#judged();
    return kind !== "none";
  }

  async #learn(): Promise<void> {
    const kinds = readSupported(
      await this.#client.ask("supported", undefined, this.#options.verifyTimeoutMs),
    );
    if (this.#closed) return;
    if ("kind" in kinds) return this.#probeFailed(kinds.reason);
    this.#kinds = toKinds(kinds);
    this.#onKinds();
    if (this.#breaker.state !== "closed") return this.#tryOut();
    this.#found();
    this.#learnIn(REFRESH_MS);
  }

  /** It is there again, but for all that is known it still answers no verify. */
  async #tryOut(): Promise<void> {
    this.#breaker.halfOpen();
    if ((await this.#isJudging()) || this.#closed || this.#breaker.state === "closed") return;
    this.#probeLater();
  }

  #probeFailed(reason: string): void {
    if (this.#breaker.state !== "closed") this.#breaker.open();
    this.#lose(reason, { probe: true });
  }

  /** What answers a settle is there, which says nothing of its verifies. */
  #answered(): void {
    if (this.#breaker.state !== "closed") return;
    this.#attempts = 0;
    this.#found();
  }

  #found(): void {
    if (this.#lost !== undefined) this.#options.log.info("facilitator.up", { facilitator: this.name });
    this.#lost = undefined;
  }

  /**
   * Logs only the first failure of a loss. That one and each failed probe schedule the next probe; further failed requests do
   * not postpone it.
   */
  #lose(reason: string, { probe }: { probe: boolean }): void {
    if (this.#closed) return;
    const before = this.#lost;
    this.#lost = reason;
    if (before === undefined) this.#options.log.warn("facilitator.down", { facilitator: this.name, reason });
    if (before === undefined || probe) this.#probeLater();
  }

  #probeLater(): void {
    this.#attempts += 1;
    this.#learnIn(Math.max(PROBE_MIN_MS, backoffMs(PROBE_BACKOFF, this.#attempts, Math.random)));
  }

  #learnIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#learn(), ms);
  }
}

function toBody({ x402Version, paymentPayload, paymentRequirements }: FacilitatorRequest): string {
  return JSON.stringify({ x402Version, paymentPayload, paymentRequirements });
}
