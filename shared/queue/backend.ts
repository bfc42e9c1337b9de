import { type QueueBaseOptions, QueueKeys, type RedisConnection, RedisQueueBackend } from "bullmq";
import type { ResultMark } from "../call/results/answer.ts";
import type { ResultLimits } from "../call/results/result.ts";
import { Batches } from "../redis/batches.ts";
import type { Redis } from "../redis/connect.ts";
import { defineScript, type Word } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { type Decode, integer, list, text, tuple } from "../redis/reply.ts";
import type { PreparedCallback } from "./callbacks.ts";
import delayLua from "./delay.lua";
import discardLua from "./discard.lua";
import failLua from "./fail.lua";
import { AFTER_REFUND, answerOf, QUEUE_CONSTANTS } from "./lua-constants.ts";
import { RANDOM_ID_KEEP_MS } from "./protocol.ts";
import { gateOf, type QueueName } from "./queue-name.ts";
import replayLua from "./replay.lua";
import requeueLua from "./requeue.lua";
import returnToQueueLua from "./return-to-queue.lua";
import takeBackLua from "./take-back.lua";
import workLua from "./work.lua";

/** A call just taken from its queue. */
export type FetchedCall = {
  kind: "call";
  id: string;
  /** The call as JSON. */
  data: string;
  /** When the call was added to the queue, unix ms. */
  queuedAt: number;
  attemptsMade: number;
  /** Number of times that the call was taken, including takes before replays. */
  attemptsStarted: number;
  /** Number of earlier attempts, including those before replays. */
  attemptsBefore: number;
  /** Newest failure in the call's log, as JSON (call-log.ts); empty without a failure. */
  lastFailure: string;
  /** Number of processes that died while they worked on the call. */
  crashes: number;
  /**
   * The later of two times, unix ms: the last replay, and the end of the job's last pause. Until then the call had failed or
   * its job was paused, so that time does not count as latency. 0 if neither is known.
   */
  heldUntil: number;
  /**
   * Number of calls that still wait in the queue. Always 0 if this call was taken in the step that ended another call,
   * or if its job has limits.
   */
  waiting: number;
  /** The state in the call's record, if there is one. The text is not validated. */
  record: string | undefined;
  /** Retention time of the call's record after the call's end, if the record has one. */
  windowMs: number | undefined;
};

/** Result of a fetch. */
export type Fetched =
  | FetchedCall
  /** No call can be taken now. `recheckInMs` says when that may change, if known. */
  | { kind: "none"; recheckInMs: number | undefined }
  /** The next call is larger than the worker's capacity. `bytes` is its stored size. */
  | { kind: "large"; bytes: number }
  /**
   * The next call was in flight when processes died, and may have killed them. A worker may take it only while it has no
   * other call.
   */
  | { kind: "alone"; id: string }
  /**
   * The calls of the queue's job need permits of partition 0 (services/producer/consumer/permits.ts), and the worker has none
   * for this call.
   */
  | { kind: "permit" }
  /**
   * The step that ended a call did not take the next one. That call needs a fetch of its own. It needs a permit, is large,
   * was in flight when processes died, or would make the answer of the batch too long.
   */
  | { kind: "refetch" };

/** Limits of a worker on the next call that it takes. */
export type Capacity = {
  /** Maximum stored size of the call, in bytes; undefined means no limit. */
  readonly bytes: number | undefined;
  /** True if the worker has no other call in flight. */
  readonly alone: boolean;
  /** True if the worker has a permit for the call. Only matters if the call's job needs permits. */
  readonly permitted?: boolean;
};

/**
 * Says whether the step that ends a call also takes the next call of the queue. It does so if this is set and that call's
 * stored size is at most `bytes`.
 */
export type FetchNext = { bytes: number } | undefined;

type Injected = {
  fetchNext: FetchNext;
  /** Retention time of the record. */
  windowMs?: number | undefined;
  /** True if the call was taken before, so its log may have failed attempts. */
  retried: boolean;
  /** State of the call's result. Only set if its job keeps results. */
  result?: ResultMark | undefined;
  callback?: PreparedCallback | undefined;
  /** Encoded settings for keeping the whole call (shared/call/kept/kept.ts); undefined if the call is not kept. */
  kept?: Buffer | undefined;
};

/**
 * Arguments of the script that ends an injected call: the changes to the call's record, the time for which the record is
 * kept, and the callback to queue, if any.
 */
type Recorded = Pick<Injected, "retried" | "result" | "callback" | "kept"> & { keepMs: number };

/**
 * Runs steps of a worker. A step ends a call, takes the next call, or does both. work.lua explains the arguments and answers.
 */
const WORK = defineScript({
  source: workLua,
  keys: "registry",
  args: "prefix, worker, lockMs, resultMs, resultsBytesMax, ...steps(gate, queue, token, id, keepMs, retried, takes, room, result, callback, kept)",
  constants: QUEUE_CONSTANTS,
  proof: "needed",
  reply: list(unchanged),
});
type Step = Parameters<ReturnType<typeof WORK.on>>[1]["steps"][number];

/**
 * Our scripts around those BullMQ scripts that end calls or make them wait again, by BullMQ's name of the script. Each one
 * runs BullMQ's Lua, and then wakes the producers. `keys` is the number of KEYS of BullMQ's script.
 */
const WRAPPED_SCRIPTS = {
  moveToFinished: { keys: 14, script: wrapScript(failLua) },
  moveToDelayed: { keys: 11, script: wrapScript(delayLua) },
  moveJobFromActiveToWait: { keys: 9, script: wrapScript(requeueLua) },
  moveStalledJobsToWait: { keys: 9, script: wrapScript(takeBackLua) },
  removeJob: { keys: 2, script: wrapScript(discardLua) },
};

/**
 * Our script around BullMQ's `reprocessJob`, which moves a failed call back to the waiting calls. It also adds a note to the
 * call's log.
 */
const REPLAY = defineScript({
  source: replayLua,
  keys: "...keys",
  args: "prefix, gate, queue, note, ...words",
  constants: QUEUE_CONSTANTS,
  proof: "needed",
  reply: integer,
});

/**
 * Returns a call that was taken, but never sent, to its queue (lost-takes.ts). A failover may lose this write. The worker
 * then finds the call again and repeats the write. So the write does not wait until it is proven: the call's lock could
 * expire during that time.
 */
const RETURN_TO_QUEUE = defineScript({
  source: returnToQueueLua,
  keys: "...keys",
  args: "prefix, gate, queue, take, ...words",
  constants: QUEUE_CONSTANTS,
  proof: "expendable",
  reply: integer,
});

function wrapScript(source: string) {
  const args = "prefix, gate, queue, ...words";
  return defineScript({
    source,
    keys: "...keys",
    args,
    constants: QUEUE_CONSTANTS,
    proof: "needed",
    reply: unchanged,
  });
}

/** Decoder that leaves a reply unchanged, because BullMQ's code or `toFetched` decodes it. */
function unchanged(reply: unknown): unknown {
  return reply;
}

/**
 * Runs BullMQ's scripts on one queue. Any number of backends share one connection, and an unused backend costs nothing.
 * BullMQ's own classes Queue and Worker are not used, because each object of them needs its own connection or timers.
 */
export class QueueBackend extends RedisQueueBackend {
  readonly #opened: OpenedPartition;
  readonly #names: { readonly gate: string; readonly queue: QueueName };

  constructor(opened: OpenedPartition, queue: QueueName, work: Work | undefined) {
    const { prefix } = opened.partition;
    const bullKeys = new QueueKeys(prefix);
    const options = {
      prefix,
      ...(work && { ...work, ...SHARED_OPTIONS }),
      connection: opened.partition.redis,
    };
    super(
      toConnection(opened.partition.redis),
      queue,
      bullKeys.getKeys(queue),
      (type) => bullKeys.toKey(queue, type),
      options as QueueBaseOptions,
      undefined,
      false,
    );
    this.#opened = opened;
    this.#names = { gate: gateOf(queue), queue };
  }

  get #steps(): Steps {
    const { steps } = this.#opened;
    if (steps === undefined) throw new Error("without a worker no call is taken");
    return steps;
  }

  /** Takes the next call, if the worker has capacity for it. */
  async fetch(token: string, { bytes, alone, permitted = false }: Capacity): Promise<Fetched> {
    const { gate, queue } = this.#names;
    const none = { id: "", keepMs: "", retried: false, result: "", callback: "", kept: "" };
    const takes = alone ? (permitted ? "alone permitted" : "alone") : permitted ? "permitted" : true;
    const step = { gate, queue, token, takes, room: bytes, ...none };
    return toFetched(answerOf(await this.#steps.add(step, 0)));
  }

  /** Ends a call that the runner has accepted: removes it from the queue and sets its record to INJECTED. */
  async injected(
    id: string,
    token: string,
    { fetchNext, windowMs = RANDOM_ID_KEEP_MS, ...rest }: Injected,
  ): Promise<Fetched | undefined> {
    return this.#end(id, token, fetchNext, { keepMs: windowMs, ...rest });
  }

  /** Removes the call from the queue and leaves its record unchanged. */
  async ended(id: string, token: string, fetchNext: FetchNext): Promise<Fetched | undefined> {
    return this.#end(id, token, fetchNext);
  }

  /**
   * Moves a failed call back to the waiting calls. The call gets its full number of attempts again. `note` says in the call's
   * log who did it and why.
   */
  async replay(id: string, note: string): Promise<void> {
    const { partition, replay } = this.#opened;
    const { gate, queue } = this.#names;
    // The keys that BullMQ's retryFinishedJob passes.
    const names = [id, "events", "failed", "wait", "meta", "active", "marker", "prioritized", "pc"];
    const keys = names.map((name) => partition.keys.inQueue(queue, name));
    const words = [id, "LPUSH", "failedReason", "failed", "1", "0"];
    const code = await replay({ keys }, { prefix: partition.prefix, gate, queue, note, words });
    if (code !== 1) throw this.finishedErrors({ code, jobId: id, command: "reprocessJob", state: "failed" });
  }

  /** Puts a call back into its queue if it was taken but never sent, unless it was taken again since. */
  async returnToQueue(id: string, token: string, take: string): Promise<void> {
    const { partition, returnToQueue } = this.#opened;
    const { gate, queue } = this.#names;
    // The keys that BullMQ's moveJobFromActiveToWait passes.
    const names = [
      "active",
      "wait",
      "stalled",
      "paused",
      "meta",
      "limiter",
      "prioritized",
      "marker",
      "events",
    ];
    const keys = names.map((name) => partition.keys.inQueue(queue, name));
    const words = [id, token, partition.keys.inQueue(queue, id)];
    const code = await returnToQueue({ keys }, { prefix: partition.prefix, gate, queue, take, words });
    if (code < 0)
      throw this.finishedErrors({ code, jobId: id, command: "moveJobFromActiveToWait", state: "active" });
  }

  async #end(
    id: string,
    token: string,
    fetchNext: FetchNext,
    injected?: Recorded,
  ): Promise<Fetched | undefined> {
    const { keepMs, retried = false, result: mark, callback, kept } = injected ?? {};
    const { gate, queue } = this.#names;
    const next = { takes: fetchNext !== undefined, room: fetchNext?.bytes ?? 0 };
    const result = mark?.known === "kept" ? mark.value : (mark?.known ?? "");
    const step = { gate, queue, token, id, keepMs, retried, ...next, result, callback, kept };
    const answer = answerOf(await this.#steps.add(step, result.length + (kept?.length ?? 0)));
    if (answer === AFTER_REFUND) throw new AfterRefund();
    if (typeof answer === "number" && answer < 0) {
      throw this.finishedErrors({ code: answer, jobId: id, command: "moveToFinished", state: "active" });
    }
    return fetchNext && toFetched(answer);
  }

  /** Runs BullMQ's scripts: BullMQ reaches Redis only through this method. `args` are the KEYS, followed by the ARGV. */
  override execCommand(...[, command, args]: Parameters<RedisQueueBackend["execCommand"]>): unknown {
    const wrapped = this.#opened.scripts.get(command);
    if (wrapped === undefined) throw new Error(`BullMQ's script ${command} is not wrapped in our Lua`);
    const { keys, run } = wrapped;
    const { prefix } = this.#opened.partition;
    const words = args as Word[];
    return run(
      { keys: words.slice(0, keys) as string[] },
      { prefix, ...this.#names, words: words.slice(keys) },
    );
  }
}

type OpenedPartition = {
  partition: Partition;
  scripts: ReturnType<typeof scriptsOn>;
  replay: ReturnType<typeof REPLAY.on>;
  returnToQueue: ReturnType<typeof RETURN_TO_QUEUE.on>;
  /** Undefined if the queues were opened without the settings of a worker. No call can be taken or ended then. */
  steps: Steps | undefined;
};

/**
 * Collects the steps that are added in one turn of the event loop, for any queues, and sends them to Redis as one script
 * call.
 */
type Steps = Batches<Step, unknown>;

function createSteps({ redis, keys, prefix }: Partition, work: Work): Steps {
  const run = WORK.on(redis);
  const { resultMs, bytesMax: resultsBytesMax } = work.results;
  const { name: worker, lockDuration: lockMs } = work;
  const of = { prefix, worker, lockMs, resultMs, resultsBytesMax };
  return new Batches((steps: readonly Step[]) => run({ registry: keys.queues }, { ...of, steps }));
}

/** Settings of a worker, under BullMQ's names. `results` limits the kept results. */
export type Work = {
  name: string;
  lockDuration: number;
  stalledInterval: number;
  results: ResultLimits;
};

/** Settings that all workers share, under BullMQ's names. */
const SHARED_OPTIONS = {
  /**
   * BullMQ would fail a call after its workers have died this often. The number is so high that this never happens: `CRASHES`
   * decides when such a call fails.
   */
  maxStalledCount: 1_000_000,
};

export type Backends = (queue: QueueName) => QueueBackend;

/** Opens the queues of a partition for changes. */
export function openBackends(partition: Partition, work?: Work): Backends {
  const opened = {
    partition,
    scripts: scriptsOn(partition.redis),
    replay: REPLAY.on(partition.redis),
    returnToQueue: RETURN_TO_QUEUE.on(partition.redis),
    steps: work && createSteps(partition, work),
  };
  const backends = new Map<QueueName, QueueBackend>();
  return (queue) => {
    const known = backends.get(queue);
    if (known !== undefined) return known;
    const backend = new QueueBackend(opened, queue, work);
    backends.set(queue, backend);
    return backend;
  };
}

/**
 * Builds an object that has only the client of BullMQ's connection. A backend needs nothing else of it, because `execCommand`
 * sends the scripts. A real connection would send all BullMQ scripts to Redis, and add listeners to a client that many queues
 * share.
 */
function toConnection(client: Redis): RedisConnection {
  return { client } as unknown as RedisConnection;
}

function scriptsOn(redis: Redis) {
  const opened = Object.entries(WRAPPED_SCRIPTS).map(([command, { keys, script }]) => {
    return [command, { keys, run: script.on(redis) }] as const;
  });
  return new Map<string, (typeof opened)[number][1]>(opened);
}

/**
 * The runner accepted a call whose refund had already been exported. The record stores the time of the injection, but keeps
 * its state.
 */
export class AfterRefund extends Error {
  constructor() {
    super("the call was injected after its refund was exported");
  }
}

/**
 * Returns whether BullMQ's error says that another process has moved the call. The call is gone, its lock is gone or belongs
 * to another worker, or it is not in the expected list.
 */
export function isGone(error: unknown): boolean {
  return [-1, LOCK_MISSING, -3, -6].some((code) => code === codeOf(error));
}

/** Returns whether the error says that the call's lock has expired and no other worker has one. */
export function isLockMissing(error: unknown): boolean {
  return codeOf(error) === LOCK_MISSING;
}

const LOCK_MISSING = -2;

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

const CALL = tuple(text, integer, integer, integer, integer, integer, integer, text, text, text);
const textOrNumber: Decode<string | number> = (reply) => (typeof reply === "number" ? reply : text(reply));

/**
 * Decodes the answer to a fetch (work.lua). If a call was taken, the first element is the number of calls that still wait in
 * the queue. It is followed by the call's id, a number without meaning, and the call.
 *
 * If no call was taken, the last element is the reason, or the ms until a delayed call is due. The third is the ms until
 * the job's gate opens. The second is the size of a large call, or the id of a call that must be taken alone.
 */
const ANSWER = tuple(integer, textOrNumber, integer, (reply) =>
  Array.isArray(reply) ? CALL(reply) : textOrNumber(reply),
);

function toFetched(answer: unknown): Fetched {
  if (!Array.isArray(answer)) return { kind: "none", recheckInMs: undefined };
  const [waiting, id, closedMs, last] = ANSWER(answer);
  if (Array.isArray(last)) return toCall(String(id), waiting, last);
  if (last === "LARGE") return { kind: "large", bytes: Number(id) };
  if (last === "ALONE") return { kind: "alone", id: String(id) };
  if (last === "PERMIT") return { kind: "permit" };
  if (last === "REFETCH") return { kind: "refetch" };
  const recheckInMs = closedMs > 0 ? closedMs : Number(last);
  return { kind: "none", recheckInMs: recheckInMs > 0 ? recheckInMs : undefined };
}

function toCall(id: string, waiting: number, call: ReturnType<typeof CALL>): FetchedCall {
  const [data, queuedAt, attemptsMade, attemptsStarted, attemptsBefore, crashes, ...rest] = call;
  const [heldUntil, lastFailure, state, windowMs] = rest;
  return {
    kind: "call",
    id,
    data,
    queuedAt,
    attemptsMade,
    attemptsStarted,
    attemptsBefore,
    crashes,
    heldUntil,
    lastFailure,
    waiting,
    record: state || undefined,
    windowMs: windowMs ? Number(windowMs) : undefined,
  };
}
