import { AppError, messageOf } from "../../shared/platform/errors/app-error.ts";
import { BoundedMap } from "../../shared/platform/lifecycle/bounded-map.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { FetchAllowance } from "./fetch-allowance.ts";

/** Least time in ms between two fetches of the same document. */
const FETCH_EVERY_MS = 60_000;
/**
 * Time in ms after which a failed fetch may be tried again. It is short because some senders give up soon: Amazon SNS
 * sends a message again after 20 s, and only three times.
 */
const RETRY_MS = 5000;
/**
 * Age in ms from which a request that uses a document also causes it to be fetched again, without waiting for the
 * fetch.
 */
const FRESH_MS = 3_600_000;
/** Age in ms from which a document is no longer used, because its owner may have withdrawn a key in it. */
const KEPT_MS = 24 * 3_600_000;
/**
 * Limit on kept documents, counted separately for those that have verified a delivery and for the rest. An endpoint
 * needs few: the topics of one region at Amazon SNS, for example, share certificates.
 */
const DOCUMENTS_MAX = 16;
/**
 * Limit on remembered URLs whose fetch failed. This is enough, because fetch-allowance.ts permits fewer fetches within
 * RETRY_MS.
 */
const FAILURES_MAX = 64;

type Options = {
  /** Path of the endpoint, for the log. */
  path: string;
  /** Fetches a text. Rejects with the reason. */
  getText: (url: string) => Promise<string>;
  clock: Clock;
  log: Logger;
};

/** Parses a fetched text. Throws an error with the reason if the text is not a usable document. */
type Parse<Document> = (text: string, url: string) => Document;

type Kept<Document> = {
  readonly document: Document;
  readonly text: string;
  /** Time at which the document's fetch began. */
  readonly at: number;
};

type Fetch<Document> = { readonly at: number; readonly document: Promise<Document> };

/**
 * Fetches and keeps the documents that verify the deliveries of one endpoint, such as key sets and certificates. A
 * document is fetched for a request that is not verified yet. A stranger may have sent it, and may choose the URL that
 * it names. So an allowance limits the fetches. Documents that have verified a delivery are kept in a list of their
 * own, so that documents that strangers name cannot displace them. Requests that need the same document share one
 * fetch.
 */
export class FetchedDocuments<Document> {
  readonly #options: Options;
  readonly #parse: Parse<Document>;
  readonly #allowance: FetchAllowance;
  readonly #proven = new BoundedMap<string, Kept<Document>>(DOCUMENTS_MAX);
  readonly #others = new BoundedMap<string, Kept<Document>>(DOCUMENTS_MAX);
  readonly #running = new Map<string, Fetch<Document>>();
  readonly #failedAt = new BoundedMap<string, number>(FAILURES_MAX);

  /**
   * Takes over the documents that the previous object kept before a reload of the configuration, if `parse` accepts
   * them.
   */
  constructor(options: Options, parse: Parse<Document>, earlier?: FetchedDocuments<unknown>) {
    this.#options = options;
    this.#parse = parse;
    this.#allowance = new FetchAllowance(options.clock);
    if (earlier === undefined) return;
    this.#adopt(earlier.#proven, this.#proven);
    this.#adopt(earlier.#others, this.#others);
  }

  /**
   * Yields versions of one document until the caller finds the key that it needs. First comes the kept version, then
   * newer ones. The last one is a version whose fetch began after this call. Throws `webhook.keys_unavailable` if a
   * newer document may exist but cannot be fetched now.
   */
  async *versions(url: string, address: string): AsyncGenerator<Document, undefined> {
    const askedAt = this.#options.clock();
    const kept = this.#keptAt(url);
    if (kept !== undefined && this.#msLeft(KEPT_MS, kept.at) > 0) {
      if (this.#msLeft(FRESH_MS, kept.at) === 0) this.#renew(url, address);
      yield kept.document;
    }
    for (;;) {
      const { at, document } = this.#fetch(url, address);
      yield await document;
      if (at >= askedAt) return undefined;
    }
  }

  /** Returns the kept document, or fetches it. Use this for documents whose content never changes. */
  async get(url: string, address: string): Promise<Document> {
    const { value } = await this.versions(url, address).next();
    return value as Document;
  }

  /** Records that the document at this URL has verified a delivery, so that unproven documents cannot displace it. */
  markProven(url: string): void {
    const kept = this.#keptAt(url);
    if (kept === undefined) return;
    if (this.#others.delete(url)) this.#allowance.markProven(url);
    this.#proven.delete(url); // so that the entry becomes the newest
    this.#proven.set(url, kept);
  }

  #keptAt(url: string): Kept<Document> | undefined {
    return this.#proven.get(url) ?? this.#others.get(url);
  }

  #renew(url: string, address: string): void {
    try {
      this.#fetch(url, address);
    } catch {
      // No fetch may begin now, so the kept document stays in use.
    }
  }

  /**
   * Returns the running fetch of a document, or begins one. Throws `webhook.keys_unavailable` if no fetch may begin
   * now.
   */
  #fetch(url: string, address: string): Fetch<Document> {
    const running = this.#running.get(url);
    if (running !== undefined) return running;
    this.#assertDue(url);
    if (!this.#proven.has(url) && !this.#allowance.use(url, address))
      throw unavailable("too many fetches for unverified requests", RETRY_MS);
    const at = this.#options.clock();
    const fetch = { at, document: this.#load(url, at) };
    this.#running.set(url, fetch);
    const end = () => this.#running.delete(url);
    fetch.document.then(end, end);
    return fetch;
  }

  #assertDue(url: string): void {
    const failedMs = this.#msLeft(RETRY_MS, this.#failedAt.get(url));
    if (failedMs > 0) throw unavailable("their last fetch failed a moment ago", failedMs);
    const keptMs = this.#msLeft(FETCH_EVERY_MS, this.#keptAt(url)?.at);
    if (keptMs > 0) throw unavailable("they were fetched less than a minute ago", keptMs);
  }

  async #load(url: string, at: number): Promise<Document> {
    const { path, getText, clock, log } = this.#options;
    try {
      const text = await getText(url);
      const kept = { document: this.#parse(text, url), text, at };
      const among = this.#proven.has(url) ? this.#proven : this.#others;
      among.delete(url); // so that the entry becomes the newest
      among.set(url, kept);
      return kept.document;
    } catch (error) {
      this.#failedAt.delete(url); // so that the entry becomes the newest
      this.#failedAt.set(url, clock());
      const reason = messageOf(error);
      // Only origin and path are logged, because the query may be secret.
      const { origin, pathname } = new URL(url);
      log.warn("webhook.keys_unfetched", { path, url: `${origin}${pathname}`, reason });
      throw unavailable(reason, RETRY_MS);
    }
  }

  #adopt(from: ReadonlyMap<string, Kept<unknown>>, to: Map<string, Kept<Document>>): void {
    for (const [url, { text, at }] of from) {
      try {
        to.set(url, { document: this.#parse(text, url), text, at });
      } catch {
        // The new configuration cannot use this document, so it is dropped.
      }
    }
  }

  /**
   * Returns how many milliseconds are left of a period of `ms` that began at `at`. Returns 0 without `at`, or if `at`
   * is in the future because the clock was set back.
   */
  #msLeft(ms: number, at: number | undefined): number {
    const since = at === undefined ? ms : this.#options.clock() - at;
    return since < 0 ? 0 : Math.max(0, ms - since);
  }
}

function unavailable(reason: string, retryAfterMs: number): AppError {
  return new AppError("webhook.keys_unavailable", { reason, retryAfterMs });
}

/**
 * Documents of all endpoints. After a reload of the configuration, the new gateway takes over the documents of the
 * previous one.
 */
export class DocumentsOfEndpoints {
  readonly #options: Omit<Options, "path">;
  readonly #earlier: ReadonlyMap<string, FetchedDocuments<unknown>>;
  readonly #byPath = new Map<string, FetchedDocuments<unknown>>();

  constructor(options: Omit<Options, "path">, earlier?: DocumentsOfEndpoints) {
    this.#options = options;
    this.#earlier = new Map(earlier === undefined ? [] : earlier.#byPath);
  }

  open<Document>(path: string, parse: Parse<Document>): FetchedDocuments<Document> {
    const documents = new FetchedDocuments({ path, ...this.#options }, parse, this.#earlier.get(path));
    this.#byPath.set(path, documents);
    return documents;
  }
}
