import { AppError, messageOf, RETRY_AFTER_MS } from "../platform/errors/app-error.ts";
import type { PrimaryLookup } from "./connector.ts";
import { findReplicas, type Replicas } from "./replicas.ts";

const CHECK_EVERY_MS = 1000;
/** Time for which the result of a check is trusted. A process that was suspended for longer must check again first. */
const FRESH_MS = 4000;

/** Checks every second which replicas the primary has, and whether the settings of each keep the writes that it confirms. */
export class ReplicaWatch {
  readonly #lookup: PrimaryLookup;
  readonly #minReplicas: number;
  readonly #first: Promise<void>;
  readonly #timer: NodeJS.Timeout;
  /**
   * Addresses of attached replicas whose append-only file has all data of the last full sync. Until a replica has written it,
   * its confirmation does not mean "on disk".
   */
  readonly #written = new Set<string>();
  #found: { readonly at: number; readonly replicas: Replicas } | undefined;
  #problem = "the replicas have not been looked for yet";
  #refusal: AppError | undefined;
  #checking: AbortController | undefined;
  #isClosed = false;

  constructor(lookup: PrimaryLookup, minReplicas: number) {
    this.#lookup = lookup;
    this.#minReplicas = minReplicas;
    this.#first = this.check();
    this.#timer = setInterval(() => void this.check(), CHECK_EVERY_MS);
  }

  /** Resolves after the first check. */
  firstCheck(): Promise<void> {
    return this.#first;
  }

  /** Returns the replicas that the last check found. Throws the reason if not all of them can confirm a write now. */
  replicas(): Replicas {
    if (this.#refusal !== undefined) throw this.#refusal;
    const { seen: lastFound } = this;
    if (lastFound === undefined) throw unproven(this.#problem);
    const { attached, promotable } = lastFound;
    const missing = promotable.filter((address) => !attached.includes(address));
    if (missing.length > 0) throw unproven(missingText(missing));
    if (attached.length < this.#minReplicas)
      throw unproven(`the primary has ${attached.length} replicas, but min_replicas is ${this.#minReplicas}`);
    const unwritten = attached.filter((address) => !this.#written.has(address));
    if (unwritten.length > 0)
      throw unproven(`after a full sync, ${unwritten.join(", ")} must first write its append-only file`);
    return lastFound;
  }

  /** The replicas that the last check found; undefined if that check is too old. */
  get seen(): Replicas | undefined {
    const found = this.#found;
    return found === undefined || performance.now() - found.at > FRESH_MS ? undefined : found.replicas;
  }

  #note(next: Replicas): void {
    const last = this.#found?.replicas;
    if (last?.id !== next.id || last.fullSyncs !== next.fullSyncs) this.#written.clear();
    for (const address of this.#written) if (!next.attached.includes(address)) this.#written.delete(address);
    for (const address of next.attached) if (!next.rewriting.includes(address)) this.#written.add(address);
  }

  /** Checks now, unless a check is running. */
  async check(): Promise<void> {
    if (this.#checking !== undefined || this.#isClosed) return;
    const looking = new AbortController();
    this.#checking = looking;
    const at = performance.now();
    try {
      const replicas = await findReplicas(this.#lookup, looking.signal);
      this.#note(replicas);
      this.#found = { at, replicas };
      this.#refusal = undefined;
    } catch (error) {
      this.#refusal = isRefusal(error) ? error : undefined;
      this.#problem = `the replicas are unknown: ${messageOf(error)}`;
    } finally {
      this.#checking = undefined;
      looking.abort();
    }
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#checking?.abort();
  }
}

function isRefusal(error: unknown): error is AppError {
  return error instanceof AppError && error.code === "start.redis_not_durable";
}

function missingText(missing: readonly string[]): string {
  return (
    `a replica is missing (${missing.join(", ")}), and could take over without the newest calls. Start it again. ` +
    `If it never returns, run: postern redis remove-node ${missing[0]}`
  );
}

/** Creates the error of a write that was not sent, because the replicas cannot confirm it now. */
function unproven(reason: string): AppError {
  return new AppError("queue.unavailable", { reason, retryAfterMs: RETRY_AFTER_MS });
}
