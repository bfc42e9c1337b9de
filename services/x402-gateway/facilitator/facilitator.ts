import type { SupportedKind } from "@x402/core/types";
import type { Logger } from "../../../shared/log/logger.ts";
import { type Backoff, backoffMs } from "../../../shared/time/backoff.ts";
import {
  type NoAnswer,
  readSettled,
  readSupported,
  readVerified,
  type Settled,
  type Verified,
} from "./answers.ts";
import type { FacilitatorClient } from "./client.ts";

/** While it is away it is asked what it supports after these times; the attempts count on until it has judged a payment. */
const PROBE_BACKOFF: Backoff = { baseMs: 500, capMs: 30_000 };
const PROBE_MIN_MS = 100;
const REFRESH_MS = 5 * 60_000;

type Options = {
  /** How it is told from others: its origin, since the path of its URL may hold a key. */
  name: string;
  client: FacilitatorClient;
  verifyTimeoutMs: number;
  settleTimeoutMs: number;
  log: Logger;
};

/** One facilitator: what it supports, learned and kept fresh in the background, and whether it answers. */
export class Facilitator {
  readonly name: string;
  readonly #options: Options;
  #kinds: readonly SupportedKind[] | undefined;
  #lost: string | undefined;
  #attempts = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: Options) {
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

  /** Why it is not to be counted on now; undefined where it is. */
  get trouble(): string | undefined {
    return this.#lost ?? (this.#kinds === undefined ? "not reached yet" : undefined);
  }

  supports(kind: Pick<SupportedKind, "x402Version" | "scheme"> & { network: string }): boolean {
    return (this.#kinds ?? []).some(
      ({ x402Version, scheme, network }) =>
        x402Version === kind.x402Version && scheme === kind.scheme && isWithin(network, kind.network),
    );
  }

  async verify(body: string): Promise<Verified | NoAnswer> {
    const { client, verifyTimeoutMs } = this.#options;
    const verified = readVerified(await client.ask("verify", body, verifyTimeoutMs));
    if (verified.kind === "none") this.#lose(verified.reason, { probe: false });
    else this.#judged();
    return verified;
  }

  async settle(body: string): Promise<Settled> {
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

  /** Logged once, until it is back. Only the first failure and each probe put the next probe off. */
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
