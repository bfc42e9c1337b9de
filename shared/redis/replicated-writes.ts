import type { Redis } from "ioredis";
import { AppError, messageOf, RETRY_AFTER_MS } from "../platform/errors/app-error.ts";
import { delay, type Settled, settled } from "../platform/time/clock.ts";
import { Batches } from "./batches.ts";
import {
  isUnknownScript,
  type Prover,
  type ReplicaCounts,
  type ScriptCall,
  type Sent,
  send,
} from "./prover.ts";
import { whenReady } from "./ready.ts";
import type { ReplicaWatch } from "./replica-watch.ts";
import { toReplication } from "./replicas.ts";

/** Time limit for the replicas to confirm a batch. */
const WAIT_MS = 1000;
/**
 * Time limit for the replicas to confirm a large script. It is longer, because they receive, run and sync the script only
 * after the primary has done so.
 */
const LARGE_WAIT_MS = 5000;
/** Timeout of a command on a connection that `openLane` opens. It is longer than `WAIT_MS`, so that WAIT returns before it. */
export const LANE_TIMEOUT_MS = WAIT_MS + 1500;
const READY_MS = 1500;
const PAUSE_MS = 250;

/**
 * Script that ends each batch with a write. WAIT asks the replicas only about writes that its own connection has sent. A
 * script in the batch may find the result of another process's write and write nothing itself, and WAIT would then prove
 * nothing. With this last write, WAIT also covers all writes before it. A full Redis runs this script too, because it begins
 * with a removal.
 */
const MARK = "redis.call('DEL', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1])";

type Options = {
  watch: ReplicaWatch;
  /** Key that `MARK` writes after each batch. */
  key: string;
  /** Opens a connection on which commands fail at once without a connection, and are never sent twice. */
  openLane: () => Redis;
  /** If true, a script waits until Redis and all replicas are reachable. Otherwise it fails. */
  waits: boolean;
};

/**
 * Runs scripts in batches, and proves that all replicas have confirmed their writes. After each batch, it sends `MARK`, WAIT
 * and INFO on the same connection. A batch is proven under two conditions: all replicas that can take over have confirmed its
 * mark, and the server is still the primary that the last check found. A script that Redis does not know by its hash is sent
 * again with its text, in another batch.
 */
export class ReplicatedWrites implements Prover {
  readonly #options: Options;
  readonly #waitMs: number;
  readonly #batches = new Batches((calls: readonly Sendable[]) => this.#run(calls));
  readonly #lanes = new Set<Redis>();
  readonly #free: Redis[] = [];
  #isClosed = false;
  /** Number of replicas that confirmed the newest batch. */
  #confirmed: number | undefined;

  constructor(options: Options, waitMs = WAIT_MS) {
    this.#options = options;
    this.#waitMs = waitMs;
  }

  async run(call: ScriptCall): Promise<unknown> {
    const bytes = call.words.reduce<number>((sum, word) => sum + lengthOf(word), 0);
    const outcome = await this.#batches.add({ call, as: "EVALSHA" }, bytes);
    if (outcome.kind === "done") return outcome.result;
    if (!isUnknownScript(outcome.error)) throw outcome.error;
    const again = await this.#batches.add({ call, as: "EVAL" }, bytes);
    if (again.kind === "done") return again.result;
    throw again.error;
  }

  async confirm(): Promise<void> {
    const outcome = await this.#batches.add({ call: NO_SCRIPT, as: "EVAL" }, 0);
    if (outcome.kind === "failed") throw outcome.error;
  }

  async check(): Promise<void> {
    const { watch } = this.#options;
    await watch.firstCheck();
    watch.replicas();
  }

  replicas(): ReplicaCounts {
    const { seen } = this.#options.watch;
    return {
      ...(seen && { promotable: seen.promotable.length, attached: seen.attached.length }),
      ...(this.#confirmed !== undefined && { confirmed: this.#confirmed }),
    };
  }

  over(redis: Redis): Prover {
    return new ReplicatedWrites({ ...this.#options, openLane: () => redis, waits: false }, LARGE_WAIT_MS);
  }

  close(): void {
    this.#isClosed = true;
    this.#options.watch.close();
    for (const lane of this.#lanes) lane.disconnect();
  }

  async #run(calls: readonly Sendable[]): Promise<Settled<unknown>[]> {
    const lane = this.#take();
    try {
      const needed = await this.#ready(lane);
      return await this.#prove(lane, calls, needed);
    } finally {
      this.#free.push(lane);
    }
  }

  /**
   * Takes a connection on which no batch is in flight, or opens one. Each batch in flight has its own connection, because
   * WAIT blocks the connection.
   */
  #take(): Redis {
    const ready = this.#free.findIndex(({ status }) => status === "ready");
    const [free] = this.#free.splice(Math.max(ready, 0), 1);
    if (free !== undefined) return free;
    const lane = this.#options.openLane();
    this.#lanes.add(lane);
    return lane;
  }

  /** Waits until a write can be sent, and resolves with the replicas that must confirm it. */
  async #ready(lane: Redis): Promise<Needed> {
    const { watch, waits } = this.#options;
    for (;;) {
      try {
        await watch.firstCheck();
        await whenReady(lane, READY_MS);
        return watch.replicas();
      } catch (error) {
        if (!waits || this.#isClosed) throw error;
        await delay(PAUSE_MS);
      }
    }
  }

  /**
   * Sends the batch, and the commands that prove it, in one turn of the event loop. All of them must use the same socket,
   * because WAIT counts only writes on its own connection. So the connection sends no command again after a reconnect.
   */
  async #prove(lane: Redis, calls: readonly Sendable[], needed: Needed): Promise<Settled<unknown>[]> {
    const replies = calls.map(({ call, as }) => settled(send(lane, call, as)));
    const mark = lane.call("EVAL", MARK, 1, this.#options.key, "1");
    const confirmed = lane.call("WAIT", needed.attached.length, this.#waitMs);
    const info = lane.info("replication");
    const proof = await settled(Promise.all([mark, confirmed, info]));
    const outcomes = await Promise.all(replies);
    this.#confirmed = proof.kind === "done" ? Number(proof.result[1]) : 0;
    const gap = proof.kind === "done" ? gapIn(Number(proof.result[1]), proof.result[2], needed) : proof.error;
    if (gap === undefined) return outcomes;
    void this.#options.watch.check();
    // Reconnects after a missing reply. The reply may still arrive late on this connection, or its server may no longer be
    // the primary.
    if (proof.kind === "failed" && lane.status === "ready") lane.disconnect(true);
    return outcomes.map((outcome) => (outcome.kind === "done" ? failed(unproven(gap)) : outcome));
  }
}

const NO_SCRIPT: ScriptCall = { lua: "return 1", words: ["", 0], strings: "text" };

type Sendable = { readonly call: ScriptCall; readonly as: "EVALSHA" | "EVAL" };
type Needed = ReturnType<ReplicaWatch["replicas"]>;

/**
 * Returns why a batch is not proven; undefined if it is. Replicas that became attached after the last check must have
 * confirmed it too.
 */
function gapIn(confirmed: number, info: string, { id, promotable }: Needed): string | undefined {
  const now = toReplication(info);
  if (now?.id !== id) return "another server has become the primary";
  const { size } = new Set([...promotable, ...now.attached]);
  return confirmed < size ? `${confirmed} of ${size} replicas have confirmed it in time` : undefined;
}

function lengthOf(word: Sent): number {
  return typeof word === "number" ? String(word).length : word.length;
}

const failed = (error: unknown) => ({ kind: "failed", error }) as const;

/** Creates the error of a write that may have happened, but that a failover may lose. */
function unproven(cause: unknown): AppError {
  const reason = `the replicas have not confirmed a write: ${typeof cause === "string" ? cause : messageOf(cause)}`;
  return new AppError("queue.outcome_unknown", { reason, retryAfterMs: RETRY_AFTER_MS, cause });
}
