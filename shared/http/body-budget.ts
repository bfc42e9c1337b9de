import type { IncomingMessage } from "node:http";
import { AppError } from "../platform/errors/app-error.ts";
import { createEventCounter, type EventCounter } from "../platform/log/event-counter.ts";
import type { Logger } from "../platform/log/logger.ts";
import { markAuthenticated } from "./authenticated.ts";
import { abortRequest } from "./body.ts";
import type { ClientAddressOf } from "./client-address.ts";
import { addressKey } from "./ip/address.ts";

/** The part of the budget that the body of one request uses. */
export type BodyLease = {
  /**
   * Counts more bytes. If the budget is used up, cuts bodies of unverified requests until the rest fits. To cut a body
   * means to refuse its request and return its bytes to the budget, before this function returns. The body of this
   * request may be cut too.
   */
  take(bytes: number): void;
  /**
   * Records the size of the whole body, which has arrived. The request's handler keeps it in memory from then on, so a
   * cut would free nothing. The body is cut only during a `wait`.
   */
  arrived(bytes: number): void;
  /**
   * Allows cuts of a whole body while its unverified request waits, for instance until a public key is fetched. A cut
   * calls `onCut` with the refusal, and the handler must then drop the body. Returns a function that ends the wait.
   */
  wait(onCut: (refusal: AppError) => void): () => void;
  /**
   * Counts the memory of a new copy of a whole body, such as its decoded form. Throws `request.over_budget` if the
   * budget is used up and the request is unverified.
   */
  reserve(bytes: number): void;
  /**
   * Records that the request is verified. From then on its body is never cut, and does not count among the bodies of
   * its client's address.
   */
  markVerified(): void;
  /** Returns the bytes to the budget. Call it however the request ends; a second call does nothing. */
  release(): void;
};

export type BodyBudget = {
  /** Opens the lease of a request before its body is read. */
  lease(req: IncomingMessage): BodyLease;
  /** Returns the bytes that all bodies in flight use. */
  bytes(): number;
  /** Logs the cuts that are not logged yet. */
  flush(): void;
};

type Options = { bytesMax?: number | undefined; addressOf: ClientAddressOf; log: Logger };

const BYTES_MAX = 256 * 1024 * 1024;

/**
 * Limits the bytes that the bodies of all requests in flight use together. While the budget lasts, no request is
 * refused. So senders that share one address, for instance behind a load balancer, may use all of it. Once the budget
 * is used up, requests are refused (their bodies are "cut") until the rest fits. Each cut takes the address whose
 * unverified bodies use the most bytes, and refuses the request with the largest of them. So an address that uses less
 * than an equal share is never cut because of others.
 */
export function createBodyBudget({ bytesMax = BYTES_MAX, addressOf, log }: Options): BodyBudget {
  const cuts = createEventCounter(log, "http.bodies_cut", "warn");
  const usage: Usage = { bytesMax, inFlight: 0, shares: new Map(), cuts };
  return {
    lease: (req) => new Lease(usage, req, addressOf),
    bytes: () => usage.inFlight,
    flush: cuts.flush,
  };
}

/** Unverified bodies of one address: the bytes they use, and those that can be cut. */
type Share = { bytes: number; cuttable: Set<Lease> };

type Usage = { bytesMax: number; inFlight: number; shares: Map<string, Share>; cuts: EventCounter };

class Lease implements BodyLease {
  readonly req: IncomingMessage;
  readonly #usage: Usage;
  readonly #addressOf: ClientAddressOf;
  #key = "";
  /** The share of the client's address. Undefined while the body uses no memory, and once the request is verified. */
  #share: Share | undefined;
  #isWhole = false;
  #onCut = (refusal: AppError): void => abortRequest(this.req, refusal);
  #state: "unverified" | "verified" | "released" = "unverified";
  bytes = 0;

  constructor(usage: Usage, req: IncomingMessage, addressOf: ClientAddressOf) {
    this.#usage = usage;
    this.req = req;
    this.#addressOf = addressOf;
  }

  take(bytes: number): void {
    if (this.#state === "released") return;
    if (this.#state === "unverified" && this.#share === undefined) this.#openShare();
    this.#add(bytes);
    const { inFlight, bytesMax } = this.#usage;
    if (inFlight > bytesMax) cutUntilFits(this.#usage);
  }

  arrived(bytes: number): void {
    if (this.#state === "released") return;
    this.#add(bytes - this.bytes);
    this.#isWhole = true;
    this.#share?.cuttable.delete(this);
  }

  wait(onCut: (refusal: AppError) => void): () => void {
    if (this.#state !== "unverified") return () => {};
    this.#isWhole = false;
    this.#onCut = onCut;
    if (this.#share === undefined) this.#openShare();
    this.#share?.cuttable.add(this);
    return () => {
      this.#isWhole = true;
      this.#share?.cuttable.delete(this);
    };
  }

  /** Aborts the request and returns its bytes to the budget. */
  cut(refusal: AppError): void {
    this.#onCut(refusal);
    this.release();
  }

  reserve(bytes: number): void {
    this.take(bytes);
    const { inFlight, bytesMax } = this.#usage;
    if (inFlight <= bytesMax || this.#state !== "unverified") return;
    this.#add(-bytes);
    throw overBudget(
      `the request needs ${bytes} more bytes, and all bodies in flight use ${this.#usage.inFlight}`,
    );
  }

  markVerified(): void {
    if (this.#state !== "unverified") return;
    this.#state = "verified";
    markAuthenticated(this.req);
    this.#leaveShare();
  }

  release(): void {
    if (this.#state === "released") return;
    this.#state = "released";
    this.#leaveShare();
    this.#usage.inFlight -= this.bytes;
  }

  #add(bytes: number): void {
    this.bytes += bytes;
    this.#usage.inFlight += bytes;
    if (this.#share !== undefined) this.#share.bytes += bytes;
  }

  #openShare(): void {
    const { shares } = this.#usage;
    this.#key = addressKey(this.#addressOf(this.req));
    const known = shares.get(this.#key);
    this.#share = known ?? { bytes: 0, cuttable: new Set() };
    if (known === undefined) shares.set(this.#key, this.#share);
    this.#share.bytes += this.bytes;
    if (!this.#isWhole) this.#share.cuttable.add(this);
  }

  #leaveShare(): void {
    const share = this.#share;
    if (share === undefined) return;
    this.#share = undefined;
    share.bytes -= this.bytes;
    share.cuttable.delete(this);
    if (share.bytes === 0) this.#usage.shares.delete(this.#key);
  }
}

function cutUntilFits(usage: Usage): void {
  while (usage.inFlight > usage.bytesMax) {
    const largest = largestBody(largestShare(usage.shares));
    if (largest === undefined) return;
    usage.cuts.count("", { bytesMax: usage.bytesMax });
    const reason = `the request used ${largest.bytes} bytes, and all bodies in flight use ${usage.inFlight}`;
    largest.cut(overBudget(reason));
  }
}

function overBudget(reason: string): AppError {
  return new AppError("request.over_budget", { reason, retryAfterMs: 5000 });
}

/**
 * Returns the share of the address whose unverified bodies use the most bytes. To cut a body means to
 * refuse its request. Addresses without a body that can be cut are left out.
 */
function largestShare(shares: ReadonlyMap<string, Share>): Share | undefined {
  let largest: Share | undefined;
  for (const share of shares.values()) {
    if (share.cuttable.size > 0 && share.bytes > (largest?.bytes ?? -1)) largest = share;
  }
  return largest;
}

function largestBody(share: Share | undefined): Lease | undefined {
  let largest: Lease | undefined;
  for (const lease of share?.cuttable ?? []) {
    if (lease.bytes > (largest?.bytes ?? -1)) largest = lease;
  }
  return largest;
}
