import { AppError, messageOf, RETRY_AFTER_MS } from "../platform/errors/app-error.ts";
import type { PrimaryLookup } from "./connector.ts";
import { findReplicas, type Replicas } from "./replicas.ts";

const LOOK_EVERY_MS = 1000;
/** For how long a look is believed. A process that stood still must look again first. */
const FRESH_MS = 4000;

/** Looks every second for the primary's replicas, and at the settings of each. */
export class ReplicaWatch {
  readonly #lookup: PrimaryLookup;
  readonly #minReplicas: number;
  readonly #first: Promise<void>;
  readonly #timer: NodeJS.Timeout;
  /** Attached replicas that have had their whole data in their append-only file since the last full sync. */
  readonly #written = new Set<string>();
  #found: { readonly at: number; readonly replicas: Replicas } | undefined;
  #problem = "the replicas have not been looked for yet";
  #refusal: AppError | undefined;
  #looking: AbortController | undefined;
  #isClosed = false;

  constructor(lookup: PrimaryLookup, minReplicas: number) {
    this.#lookup = lookup;
    this.#minReplicas = minReplicas;
    this.#first = this.look();
    this.#timer = setInterval(() => void this.look(), LOOK_EVERY_MS);
  }

  /** Resolves after its first look. */
  looked(): Promise<void> {
    return this.#first;
  }

  /** Throws the reason if not all replicas can confirm a write now. */
  replicas(): Replicas {
    if (this.#refusal !== undefined) throw this.#refusal;
    const { seen } = this;
    if (seen === undefined) throw unproven(this.#problem);
    const { attached, promotable } = seen;
    const missing = promotable.filter((address) => !attached.includes(address));
    if (missing.length > 0) throw unproven(missingText(missing));
    if (attached.length < this.#minReplicas)
      throw unproven(`the primary has ${attached.length} replicas, but min_replicas is ${this.#minReplicas}`);
    const unwritten = attached.filter((address) => !this.#written.has(address));
    if (unwritten.length > 0)
      throw unproven(`after a full sync, ${unwritten.join(", ")} must first write its append-only file`);
    return seen;
  }

  /** The replicas of the last look; undefined if that is too old. */
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

  /** Looks now, unless it does so already. */
  async look(): Promise<void> {
    if (this.#looking !== undefined || this.#isClosed) return;
    const looking = new AbortController();
    this.#looking = looking;
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
      this.#looking = undefined;
      looking.abort();
    }
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#looking?.abort();
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

/** The error of a write that was not made. */
function unproven(reason: string): AppError {
  return new AppError("queue.unavailable", { reason, retryAfterMs: RETRY_AFTER_MS });
}
