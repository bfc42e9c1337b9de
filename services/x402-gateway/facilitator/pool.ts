import type { SupportedKind } from "@x402/core/types";
import type { Secret } from "../../../shared/crypto/secret.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import { createConcurrencyLimit } from "../../../shared/lifecycle/concurrency-limit.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import type { FacilitatorRequest } from "../../../shared/payments/payment.ts";
import { type Backoff, backoffMs } from "../../../shared/time/backoff.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import {
  createFacilitatorClient,
  type FacilitatorClient,
  type NoAnswer,
  readSettled,
  readSupported,
  readVerified,
  type SettleAnswer,
  type VerifyAnswer,
} from "./client.ts";

const RETRY_AFTER_MS = 2000;
const RETRY_AFTER_MS_MAX = 60_000;
/**
 * A key without money can ask for any number of verifies. This many at once are over a thousand a second if a facilitator
 * answers within 100 ms; if it is slower, more would only hold connections and bodies.
 */
const VERIFIES_MAX = 128;

type PaymentKind = { x402Version: 1 | 2; scheme: string; network: string };

export type Facilitators = {
  start(): void;
  close(): Promise<void>;
  /** Whether any facilitator that was reached once says that it takes such payments. */
  supports(kind: PaymentKind): boolean;
  /** Each facilitator by its origin, and why it cannot be counted on now. */
  available(): { origin: string; ok: boolean; reason: string | undefined }[];
  /**
   * Asks the facilitators that support such payments until one has answered; `url` says which. It asks those that answer
   * at present first, in the order configured. Throws `payment.unavailable` if none answered or too many verifies are under way.
   */
  verify(
    request: FacilitatorRequest,
    kind: Omit<PaymentKind, "x402Version">,
  ): Promise<{ verified: VerifyAnswer; url: string }>;
  /** Asks this one facilitator, once. Never rejects: anything that is not an answer is an unknown outcome. */
  settle(request: FacilitatorRequest, url: string): Promise<SettleAnswer>;
};

type Options = {
  urls: readonly string[];
  /** Sent to every facilitator with every request, by header name. */
  headers: Readonly<Record<string, Secret>>;
  verifyTimeoutMs: number;
  settleTimeoutMs: number;
  clock: Clock;
  log: Logger;
};

/** One or more facilitators: verifying fails over, settling never does. */
export function createFacilitators(options: Options): Facilitators {
  const { urls, headers, verifyTimeoutMs, settleTimeoutMs, clock, log } = options;
  const byUrl = new Map(
    urls.map((url) => {
      const client = createFacilitatorClient({ url, headers, clock });
      const { origin } = new URL(url);
      return [url, new Facilitator({ name: origin, client, verifyTimeoutMs, settleTimeoutMs, log })];
    }),
  );
  const all = [...byUrl];
  const verifies = createConcurrencyLimit({
    max: VERIFIES_MAX,
    what: "verifies",
    code: "payment.unavailable",
  });

  async function verifyAtAny(request: FacilitatorRequest, kind: Omit<PaymentKind, "x402Version">) {
    const { x402Version } = request;
    const able = all.filter(([, facilitator]) => facilitator.supports({ x402Version, ...kind }));
    const body = toBody(request);
    const failures: Failure[] = [];
    for (const [url, facilitator] of healthyFirst(able)) {
      const verified = await facilitator.verify(body);
      if (verified.kind !== "none") return { verified, url };
      failures.push({ name: facilitator.name, ...verified });
    }
    throw noneAnswered(failures);
  }

  return {
    start: () => all.forEach(([, facilitator]) => void facilitator.start()),
    close: async () => void (await Promise.all(all.map(([, facilitator]) => facilitator.close()))),
    supports: (kind) => all.some(([, facilitator]) => facilitator.supports(kind)),
    available: () =>
      all.map(([, { name, trouble }]) => ({ origin: name, ok: trouble === undefined, reason: trouble })),
    async verify(request, kind) {
      const leave = verifies.enter();
      return verifyAtAny(request, kind).finally(leave);
    },
    async settle(request, url) {
      const facilitator = byUrl.get(url);
      if (facilitator) return facilitator.settle(toBody(request));
      return { kind: "unknown", reason: "the facilitator that verified it is configured no more" };
    },
  };
}

function toBody({ x402Version, paymentPayload, paymentRequirements }: FacilitatorRequest): string {
  return JSON.stringify({ x402Version, paymentPayload, paymentRequirements });
}

/** Those in trouble are asked last: every payer would wait for each of their time-outs. */
function healthyFirst(facilitators: readonly (readonly [string, Facilitator])[]) {
  const isHealthy = ([, { trouble }]: readonly [string, Facilitator]) => trouble === undefined;
  return [...facilitators.filter(isHealthy), ...facilitators.filter((each) => !isHealthy(each))];
}

type Failure = NoAnswer & { name: string };

function noneAnswered(failures: readonly Failure[]): AppError {
  const reasons = failures.map(({ name, reason }) => `${name}: ${reason}`);
  const reason = reasons.join("; ") || "no facilitator is known to take this kind of payment";
  const asked = failures.flatMap(({ retryAfterMs }) => retryAfterMs ?? []);
  const retryAfterMs = Math.min(RETRY_AFTER_MS_MAX, ...(asked.length > 0 ? asked : [RETRY_AFTER_MS]));
  return new AppError("payment.unavailable", { reason, retryAfterMs });
}

export type VerifyPayment = ReturnType<typeof createVerifyPayment>;

/**
 * Asks whether the payment could settle now. Resolves with the URL of the facilitator that said yes, which is the one to
 * settle. Throws `payment.rejected`, and `payment.unavailable` if none answers or the offer itself is at fault.
 */
export function createVerifyPayment(facilitators: Facilitators, log: Logger) {
  return async function verifyPayment(
    request: FacilitatorRequest,
    /** As the payer names it: CAIP-2, or the network's name in version 1. */
    network: string,
    token: { network: string; asset: string; symbol: string },
  ): Promise<string> {
    const { verified, url } = await facilitators.verify(request, { scheme: "exact", network });
    if (verified.kind === "valid") return url;
    const { reason, fault } = verified;
    if (fault === "payer")
      throw new AppError("payment.rejected", { reason, publicDetail: `the facilitator says: ${reason}` });
    log.error("offer.faulty", { network: token.network, asset: token.asset, symbol: token.symbol, reason });
    throw new AppError("payment.unavailable", {
      reason: `the facilitator refuses the offer itself: ${reason}; see accepted_tokens in x402.toml`,
      publicDetail: "The offer is at fault, not the payment; the operator has been told.",
      retryAfterMs: 60_000,
    });
  };
}

/** The pauses between two probes of a lost facilitator. Only an answer to verify or settle begins them anew. */
const PROBE_BACKOFF: Backoff = { baseMs: 500, capMs: 30_000 };
const PROBE_MIN_MS = 100;
const REFRESH_MS = 5 * 60_000;

type FacilitatorOptions = {
  /** Its origin: the path of its URL may hold a key. */
  name: string;
  client: FacilitatorClient;
  verifyTimeoutMs: number;
  settleTimeoutMs: number;
  log: Logger;
};

/** One facilitator: whether it answers, and what it supports, which is learned and refreshed in the background. */
class Facilitator {
  readonly name: string;
  readonly #options: FacilitatorOptions;
  #kinds: readonly SupportedKind[] | undefined;
  #lost: string | undefined;
  #attempts = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: FacilitatorOptions) {
    this.name = options.name;
    this.#options = options;
  }

  start(): void {
    void this.#learn();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#options.client.close();
  }

  /** Why it cannot be counted on now; undefined if it can. */
  get trouble(): string | undefined {
    return this.#lost ?? (this.#kinds === undefined ? "not reached yet" : undefined);
  }

  supports(kind: Pick<SupportedKind, "x402Version" | "scheme"> & { network: string }): boolean {
    return (this.#kinds ?? []).some(
      ({ x402Version, scheme, network }) =>
        x402Version === kind.x402Version && scheme === kind.scheme && isWithin(network, kind.network),
    );
  }

  async verify(body: string): Promise<VerifyAnswer | NoAnswer> {
    const { client, verifyTimeoutMs } = this.#options;
    const verified = readVerified(await client.ask("verify", body, verifyTimeoutMs));
    if (verified.kind === "none") this.#lose(verified.reason, { probe: false });
    else this.#judged();
    return verified;
  }

  async settle(body: string): Promise<SettleAnswer> {
    const { client, settleTimeoutMs } = this.#options;
    const answer = await client.ask("settle", body, settleTimeoutMs);
    if (answer.kind === "none") this.#lose(answer.reason, { probe: false });
    else this.#judged();
    return readSettled(answer);
  }

  async #learn(): Promise<void> {
    const { client, verifyTimeoutMs } = this.#options;
    const kinds = readSupported(await client.ask("supported", undefined, verifyTimeoutMs));
    if (this.#closed) return;
    if ("kind" in kinds) return this.#lose(kinds.reason, { probe: true });
    this.#kinds = kinds;
    this.#found();
    this.#learnIn(REFRESH_MS);
  }

  #judged(): void {
    this.#attempts = 0;
    this.#found();
  }

  #found(): void {
    if (this.#lost !== undefined) this.#options.log.info("facilitator.returned", { facilitator: this.name });
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
    if (before === undefined) this.#options.log.warn("facilitator.lost", { facilitator: this.name, reason });
    if (before !== undefined && !probe) return;
    this.#attempts += 1;
    this.#learnIn(Math.max(PROBE_MIN_MS, backoffMs(PROBE_BACKOFF, this.#attempts, Math.random)));
  }

  #learnIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#learn(), ms);
  }
}

/** Facilitators may announce `eip155:*`. */
function isWithin(announced: string, network: string): boolean {
  return announced.endsWith(":*") ? network.startsWith(announced.slice(0, -1)) : announced === network;
}
