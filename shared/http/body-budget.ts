import type { IncomingMessage } from "node:http";
import { AppError } from "../platform/errors/app-error.ts";
import { createEventCounter, type EventCounter } from "../platform/log/event-counter.ts";
import type { Logger } from "../platform/log/logger.ts";
import { markAuthenticated } from "./authenticated.ts";
import { abortRequest } from "./body.ts";
import type { ClientAddressOf } from "./client-address.ts";
import { addressKey } from "./ip/address.ts";

/** What the body of one request takes of the budget. */
export type BodyLease = {
  /** Counts more bytes. This may cut bodies, and this one among them: its request is then aborted when this returns. */
  take(bytes: number): void;
  /** The body is whole, in this many bytes. From now on it is not cut, since that would free nothing. */
  arrived(bytes: number): void;
  /**
   * The whole body waits before anything is proven, and may be cut again: `onCut` is called then, with the refusal. Returns what ends
   * the wait.
   */
  wait(onCut: (refusal: AppError) => void): () => void;
  /** Counts what is about to be made of a whole body. Throws `request.over_budget` if an unproven one finds no room. */
  reserve(bytes: number): void;
  /** The request's credential holds. From now on the body is never cut, and counts for no address. */
  prove(): void;
  /** The body is not needed any more. Call it however the request ends; twice does nothing. */
  release(): void;
};

export type BodyBudget = {
  /** Opens the lease of a request whose body is about to be read. */
  lease(req: IncomingMessage): BodyLease;
  /** What all bodies in flight take. */
  bytes(): number;
  /** Logs the cuts that are not logged yet. */
  flush(): void;
};

type Options = { bytesMax?: number | undefined; addressOf: ClientAddressOf; log: Logger };

const BYTES_MAX = 256 * 1024 * 1024;

/**
 * The bytes that the bodies of all requests in flight may take together. While there is room nobody is cut, so the senders
 * behind one load balancer may have all of it. Without room, the address whose unproven bodies take most loses the largest
 * of them, until there is room again: whoever takes less than an equal part is not cut for what others take.
 */
export function createBodyBudget({ bytesMax = BYTES_MAX, addressOf, log }: Options): BodyBudget {
  const cuts = createEventCounter(log, "http.bodies_cut", "warn");
  const books: Books = { bytesMax, inFlight: 0, shares: new Map(), cuts };
  return {
    lease: (req) => new Lease(books, req, addressOf),
    bytes: () => books.inFlight,
    flush: cuts.flush,
  };
}

/** The unproven bodies of one address: what they take, and those that can be cut. */
type Share = { bytes: number; arriving: Set<Lease> };

type Books = { bytesMax: number; inFlight: number; shares: Map<string, Share>; cuts: EventCounter };

class Lease implements BodyLease {
  readonly req: IncomingMessage;
  readonly #books: Books;
  readonly #addressOf: ClientAddressOf;
  #key = "";
  /** While the body is unproven and takes something. */
  #share: Share | undefined;
  #isWhole = false;
  #onCut = (refusal: AppError): void => abortRequest(this.req, refusal);
  #state: "unproven" | "proven" | "released" = "unproven";
  bytes = 0;

  constructor(books: Books, req: IncomingMessage, addressOf: ClientAddressOf) {
    this.#books = books;
    this.req = req;
    this.#addressOf = addressOf;
  }

  take(bytes: number): void {
    if (this.#state === "released") return;
    if (this.#state === "unproven" && this.#share === undefined) this.#openShare();
    this.#add(bytes);
    const { inFlight, bytesMax } = this.#books;
    if (inFlight > bytesMax) makeRoom(this.#books);
  }

  arrived(bytes: number): void {
    if (this.#state === "released") return;
    this.#add(bytes - this.bytes);
    this.#isWhole = true;
    this.#share?.arriving.delete(this);
  }

  wait(onCut: (refusal: AppError) => void): () => void {
    if (this.#state !== "unproven") return () => {};
    this.#isWhole = false;
    this.#onCut = onCut;
    if (this.#share === undefined) this.#openShare();
    this.#share?.arriving.add(this);
    return () => {
      this.#isWhole = true;
      this.#share?.arriving.delete(this);
    };
  }

  /** Takes its bytes back for others. */
  cut(refusal: AppError): void {
    this.#onCut(refusal);
    this.release();
  }

  reserve(bytes: number): void {
    this.take(bytes);
    const { inFlight, bytesMax } = this.#books;
    if (inFlight <= bytesMax || this.#state !== "unproven") return;
    this.#add(-bytes);
    throw overBudget(
      `the request needs ${bytes} more bytes, and all bodies in flight use ${this.#books.inFlight}`,
    );
  }

  prove(): void {
    if (this.#state !== "unproven") return;
    this.#state = "proven";
    markAuthenticated(this.req);
    this.#leaveShare();
  }

  release(): void {
    if (this.#state === "released") return;
    this.#state = "released";
    this.#leaveShare();
    this.#books.inFlight -= this.bytes;
  }

  #add(bytes: number): void {
    this.bytes += bytes;
    this.#books.inFlight += bytes;
    if (this.#share !== undefined) this.#share.bytes += bytes;
  }

  #openShare(): void {
    const { shares } = this.#books;
    this.#key = addressKey(this.#addressOf(this.req));
    const known = shares.get(this.#key);
    this.#share = known ?? { bytes: 0, arriving: new Set() };
    if (known === undefined) shares.set(this.#key, this.#share);
    this.#share.bytes += this.bytes;
    if (!this.#isWhole) this.#share.arriving.add(this);
  }

  #leaveShare(): void {
    const share = this.#share;
    if (share === undefined) return;
    this.#share = undefined;
    share.bytes -= this.bytes;
    share.arriving.delete(this);
    if (share.bytes === 0) this.#books.shares.delete(this.#key);
  }
}

function makeRoom(books: Books): void {
  while (books.inFlight > books.bytesMax) {
    const largest = largestOf(heaviestOf(books.shares));
    if (largest === undefined) return;
    books.cuts.count("", { bytesMax: books.bytesMax });
    const reason = `the request used ${largest.bytes} bytes, and all bodies in flight use ${books.inFlight}`;
    largest.cut(overBudget(reason));
  }
}

function overBudget(reason: string): AppError {
  return new AppError("request.over_budget", { reason, retryAfterMs: 5000 });
}

/** Of the shares that hold anything to be cut. */
function heaviestOf(shares: ReadonlyMap<string, Share>): Share | undefined {
  let heaviest: Share | undefined;
  for (const share of shares.values()) {
    if (share.arriving.size > 0 && share.bytes > (heaviest?.bytes ?? -1)) heaviest = share;
  }
  return heaviest;
}

function largestOf(share: Share | undefined): Lease | undefined {
  let largest: Lease | undefined;
  for (const lease of share?.arriving ?? []) {
    if (lease.bytes > (largest?.bytes ?? -1)) largest = lease;
  }
  return largest;
}
