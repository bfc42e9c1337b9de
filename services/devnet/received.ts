import type { IncomingHttpHeaders } from "node:http";
import type { Operation } from "./faults.ts";

/** A request to verify or settle, as it came. */
export type ReceivedRequest = {
  on: Operation;
  /** Lower-case; undefined where the request has no EIP-3009 authorization. */
  payer: string | undefined;
  nonce: string | undefined;
  x402Version: number | undefined;
  headers: IncomingHttpHeaders;
};

export type Received = {
  supported: number;
  verify: number;
  settle: number;
  /** Requests that followed a redirect given on command. */
  redirected: number;
  /** Those to verify and settle, oldest first: the newest some thousand. */
  requests: readonly ReceivedRequest[];
};

const KEPT = 10_000;

/** Counts what the facilitator receives, before it does anything with it. */
export class Counter {
  #counts = nothing();
  #requests: ReceivedRequest[] = [];

  count(what: keyof ReturnType<typeof nothing>): void {
    this.#counts[what] += 1;
  }

  take(request: ReceivedRequest): void {
    this.count(request.on);
    this.#requests.push(request);
    if (this.#requests.length >= 2 * KEPT) this.#requests.splice(0, KEPT);
  }

  read(): Received {
    return { ...this.#counts, requests: this.#requests };
  }

  reset(): void {
    this.#counts = nothing();
    this.#requests = [];
  }
}

const nothing = () => ({ supported: 0, verify: 0, settle: 0, redirected: 0 });
