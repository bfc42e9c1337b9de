import type { Secret } from "../../../shared/crypto/secret.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import type { FacilitatorRequest } from "../../../shared/payments/payment.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import { createConcurrencyLimit } from "../concurrency-limit.ts";
import type { NoAnswer, Settled, Verified } from "./answers.ts";
import { createFacilitatorClient } from "./client.ts";
import { Facilitator } from "./facilitator.ts";

const RETRY_AFTER_MS = 2000;
const RETRY_AFTER_MS_MAX = 60_000;
/**
 * A key without money can ask for any number of verifies. So many at once are over a thousand a second where a facilitator
 * answers within 100 ms; where it is slow, more would only hold connections and bodies.
 */
const VERIFIES_MAX = 128;

export type PaymentKind = { x402Version: 1 | 2; scheme: string; network: string };

export type Facilitators = {
  start(): void;
  close(): Promise<void>;
  /** Whether any facilitator that was reached once says that it takes such payments. */
  supports(kind: PaymentKind): boolean;
  /** Each facilitator, by its origin, and why it is not to be counted on. */
  available(): { origin: string; ok: boolean; reason: string | undefined }[];
  /**
   * Asks the facilitators that support such payments, until one has answered: `url` says which. Those that answer come
   * first, in the order configured. Throws `payment.unavailable` where none did, or too many are being asked.
   */
  verify(request: FacilitatorRequest, kind: Omit<PaymentKind, "x402Version">): Promise<Judged>;
  /** Asks this one facilitator, once. Never rejects: whatever is not an answer is an unknown outcome. */
  settle(request: FacilitatorRequest, url: string): Promise<Settled>;
};

export type Judged = { verified: Verified; url: string };

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
export function createFacilitators({ urls, headers, clock, ...shared }: Options): Facilitators {
  const byUrl = new Map(
    urls.map((url) => {
      const client = createFacilitatorClient({ url, headers, clock });
      return [url, new Facilitator({ name: new URL(url).origin, client, ...shared })];
    }),
  );
  const all = [...byUrl];
  const verifies = createConcurrencyLimit({ max: VERIFIES_MAX, what: "verifies" });

  async function judge(request: FacilitatorRequest, kind: Omit<PaymentKind, "x402Version">): Promise<Judged> {
    const { x402Version } = request;
    const able = all.filter(([, facilitator]) => facilitator.supports({ x402Version, ...kind }));
    const body = toBody(request);
    const failures: Failure[] = [];
    for (const [url, facilitator] of wellFirst(able)) {
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
      return judge(request, kind).finally(leave);
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

/** What does not answer is asked last: each of its time-outs would be every payer's wait. */
function wellFirst(facilitators: readonly (readonly [string, Facilitator])[]) {
  const isWell = ([, { trouble }]: readonly [string, Facilitator]) => trouble === undefined;
  return [...facilitators.filter(isWell), ...facilitators.filter((each) => !isWell(each))];
}

type Failure = NoAnswer & { name: string };

function noneAnswered(failures: readonly Failure[]): AppError {
  const reasons = failures.map(({ name, reason }) => `${name}: ${reason}`);
  const reason = reasons.join("; ") || "no facilitator is known to take this kind of payment";
  const asked = failures.flatMap(({ retryAfterMs }) => retryAfterMs ?? []);
  const retryAfterMs = Math.min(RETRY_AFTER_MS_MAX, ...(asked.length > 0 ? asked : [RETRY_AFTER_MS]));
  return new AppError("payment.unavailable", { reason, retryAfterMs });
}
