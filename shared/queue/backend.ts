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
import giveBackLua from "./give-back.lua";
import { AFTER_REFUND, answerOf, QUEUE_CONSTANTS } from "./lua-constants.ts";
import { RANDOM_ID_KEEP_MS } from "./protocol.ts";
import { gateOf, type QueueName } from "./queue-name.ts";
import replayLua from "./replay.lua";
import requeueLua from "./requeue.lua";
import takeBackLua from "./take-back.lua";
import workLua from "./work.lua";

/** A call just taken. */
export type FetchedCall = {
  kind: "call";
  id: string;
  /** The call as stored. */
  data: string;
  /** When it came into the queue, unix ms. */
  queuedAt: number;
  attemptsMade: number;
  /** How often it was taken, also across replays. */
  attemptsStarted: number;
  /** How many attempts are in its log: all before this one, also across replays. */
  attemptsBefore: number;
  /** The newest failure in its log, as it is stored there (call-log.ts). It may be empty. */
  lastFailure: string;
  /** How many processes have ended with it in hand. */
  crashes: number;
  /** When it was last replayed, or the last pause of its job ended, unix ms; 0 if neither is known. */
  heldUntil: number;
  /** How many calls of its queue waited still; 0 if it was taken at the end of another one, or if its job has limits. */
  waiting: number;
  /** The state that its record had, if it has one. It is not checked. */
  record: string | undefined;
  /** The window of the record, if it has one. */
  windowMs: number | undefined;
};

/** What a fetch finds. */
export type Fetched =
  | FetchedCall
  /** Nothing can be taken now. `recheckInMs` is when that may change, if it is known. */
  | { kind: "none"; recheckInMs: number | undefined }
  /** The next call is so many bytes large as stored, and there is no room for it. */
  | { kind: "large"; bytes: number }
  /** The next call has ended processes, and is to be taken by a worker that has no other in hand. */
  | { kind: "alone"; id: string }
  /** The calls of the queue's job need permits, and the worker has none for this one. */
  | { kind: "permit" }
  /** There is a next call, and it needs another fetch: it is not an ordinary one, or the answer would be long. */
  | { kind: "refetch" };

/** For which next call there is room. */
export type Room = {
  /** How large it may be as stored, in bytes; undefined: as large as it is. */
  readonly bytes: number | undefined;
  /** Whether the worker has no other call in hand. */
  readonly alone: boolean;
  /** Whether the worker has a permit for the call, if its job needs them. */
  readonly permitted?: boolean;
};

/** Whether the next call of the queue is taken in the same step, and how large it may be. */
export type FetchNext = { bytes: number } | undefined;

type Injected = {
  fetchNext: FetchNext;
  /** How long the record is kept. */
  windowMs?: number | undefined;
  /** Whether the call was taken before, so that there may be failed attempts. */
  retried: boolean;
  /** Of a call whose job keeps results. */
  result?: ResultMark | undefined;
  callback?: PreparedCallback | undefined;
  /** How the whole call is kept (shared/call/kept/kept.ts). */
  kept?: Buffer | undefined;
};

/** What the record of an injected call says from now on, and for how long; and who is told. */
type Recorded = Pick<Injected, "retried" | "result" | "callback" | "kept"> & { keepMs: number };

/** A worker's steps, with the words and answers that work.lua has. */
const WORK = defineScript({
  source: workLua,
  keys: "registry",
  args: "prefix, worker, lockMs, resultMs, resultsBytesMax, ...steps(gate, queue, token, id, keepMs, retried, takes, room, result, callback, kept)",
  constants: QUEUE_CONSTANTS,
  proof: "needed",
  reply: list(asItIs),
});
type Step = Parameters<ReturnType<typeof WORK.on>>[1]["steps"][number];

/** Our Lua around each script of BullMQ's that changes what producers must know, by BullMQ's name. `keys` counts the KEYS of BullMQ's. */
const SURROUNDED = {
  moveToFinished: { keys: 14, script: surround(failLua) },
  moveToDelayed: { keys: 11, script: surround(delayLua) },
  moveJobFromActiveToWait: { keys: 9, script: surround(requeueLua) },
  moveStalledJobsToWait: { keys: 9, script: surround(takeBackLua) },
  removeJob: { keys: 2, script: surround(discardLua) },
};

/** The Lua around BullMQ's `reprocessJob`, with a note for the call's log. */
const REPLAY = defineScript({
  source: replayLua,
  keys: "...keys",
  args: "prefix, gate, queue, note, ...words",
  constants: QUEUE_CONSTANTS,
  proof: "needed",
  reply: integer,
});

/**
 * Gives back a call whose take is not proven. It may be lost: then the worker finds the call again after the failover, and gives it back again.
 * If it waited for a proof, the call's lock would run out meanwhile.
 */
const GIVE_BACK = defineScript({
  source: giveBackLua,
  keys: "...keys",
  args: "prefix, gate, queue, take, ...words",
  constants: QUEUE_CONSTANTS,
  proof: "expendable",
  reply: integer,
});

function surround(source: string) {
  const args = "prefix, gate, queue, ...words";
  return defineScript({
    source,
    keys: "...keys",
    args,
    constants: QUEUE_CONSTANTS,
    proof: "needed",
    reply: asItIs,
  });
}

/** A reply that BullMQ reads, or that is decoded step by step. */
function asItIs(reply: unknown): unknown {
  return reply;
}

/**
 * BullMQ's work on one queue. Any number of them share one connection, and one that is not used costs nothing: neither
 * BullMQ's Queue nor its Worker would do, since they hold a connection or timers each.
 */
export class QueueBackend extends RedisQueueBackend {
  readonly #opened: OpenedPartition;
  readonly #names: { readonly gate: string; readonly queue: QueueName };

  constructor(opened: OpenedPartition, queue: QueueName, work: Work | undefined) {
    const { prefix } = opened.partition;
    const bullKeys = new QueueKeys(prefix);
    const options = { prefix, ...(work && { ...work, ...OF_ALL }), connection: opened.partition.redis };
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

  /** Takes the next call, if there is room for it. */
  async fetch(token: string, { bytes, alone, permitted = false }: Room): Promise<Fetched> {
    const { gate, queue } = this.#names;
    const none = { id: "", keepMs: "", retried: false, result: "", callback: "", kept: "" };
    const takes = alone ? (permitted ? "alone permitted" : "alone") : permitted ? "permitted" : true;
    const step = { gate, queue, token, takes, room: bytes, ...none };
    return toFetched(answerOf(await this.#steps.add(step, 0)));
  }

  /** The runner has the call: it leaves the queue, and its record says INJECTED. */
  async injected(
    id: string,
    token: string,
    { fetchNext, windowMs = RANDOM_ID_KEEP_MS, ...rest }: Injected,
  ): Promise<Fetched | undefined> {
    return this.#end(id, token, fetchNext, { keepMs: windowMs, ...rest });
  }

  /** The call leaves the queue, and its record stays as it is. */
  async ended(id: string, token: string, fetchNext: FetchNext): Promise<Fetched | undefined> {
    return this.#end(id, token, fetchNext);
  }

  /** A failed call waits again, with all its attempts; `note` says in its log who did it and why. */
  async replay(id: string, note: string): Promise<void> {
    const { partition, replay } = this.#opened;
    const { gate, queue } = this.#names;
    // As BullMQ's retryFinishedJob gives them.
    const names = [id, "events", "failed", "wait", "meta", "active", "marker", "prioritized", "pc"];
    const keys = names.map((name) => partition.keys.inQueue(queue, name));
    const words = [id, "LPUSH", "failedReason", "failed", "1", "0"];
    const code = await replay({ keys }, { prefix: partition.prefix, gate, queue, note, words });
    if (code !== 1) throw this.finishedErrors({ code, jobId: id, command: "reprocessJob", state: "failed" });
  }

  /** A call that was taken and not begun waits again, if it was not taken again since. */
  async giveBack(id: string, token: string, take: string): Promise<void> {
    const { partition, giveBack } = this.#opened;
    const { gate, queue } = this.#names;
    // As BullMQ's moveJobFromActiveToWait gives them.
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
    const code = await giveBack({ keys }, { prefix: partition.prefix, gate, queue, take, words });
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

  /** BullMQ's one way to Redis for its scripts. `args` are the KEYS, followed by the ARGV. */
  override execCommand(...[, command, args]: Parameters<RedisQueueBackend["execCommand"]>): unknown {
    const surrounded = this.#opened.scripts.get(command);
    if (surrounded === undefined) throw new Error(`BullMQ's script ${command} is not wrapped in our Lua`);
    const { keys, run } = surrounded;
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
  giveBack: ReturnType<typeof GIVE_BACK.on>;
  /** Undefined without a worker: then nothing is taken or ended. */
  steps: Steps | undefined;
};

/** The ends and fetches that come in one turn of the event loop go to Redis together, whichever queues they are of. */
type Steps = Batches<Step, unknown>;

function createSteps({ redis, keys, prefix }: Partition, work: Work): Steps {
  const run = WORK.on(redis);
  const { resultMs, bytesMax: resultsBytesMax } = work.results;
  const { name: worker, lockDuration: lockMs } = work;
  const of = { prefix, worker, lockMs, resultMs, resultsBytesMax };
  return new Batches((steps: readonly Step[]) => run({ registry: keys.queues }, { ...of, steps }));
}

/** How a worker takes calls; BullMQ's names, but for what is kept of results. */
export type Work = {
  name: string;
  lockDuration: number;
  stalledInterval: number;
  results: ResultLimits;
};

/** The same for all workers; BullMQ's names. */
const OF_ALL = {
  /** However often a worker dies with a call in hand, the call waits again: a crash never makes a call FAILED. */
  maxStalledCount: 1_000_000,
};

export type Backends = (queue: QueueName) => QueueBackend;

/** The queues of a partition, for whoever changes them. */
export function openBackends(partition: Partition, work?: Work): Backends {
  const opened = {
    partition,
    scripts: scriptsOn(partition.redis),
    replay: REPLAY.on(partition.redis),
    giveBack: GIVE_BACK.on(partition.redis),
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
 * All that a backend needs of BullMQ's connection if `execCommand` sends its scripts. The connection itself would send Redis all of BullMQ's
 * scripts, and listen on a client that many queues share.
 */
function toConnection(client: Redis): RedisConnection {
  return { client } as unknown as RedisConnection;
}

function scriptsOn(redis: Redis) {
  const opened = Object.entries(SURROUNDED).map(([command, { keys, script }]) => {
    return [command, { keys, run: script.on(redis) }] as const;
  });
  return new Map<string, (typeof opened)[number][1]>(opened);
}

/** The runner has taken a call whose refund was exported meanwhile. Its record says when; its state stays. */
export class AfterRefund extends Error {
  constructor() {
    super("the call was injected after its refund was exported");
  }
}

/** BullMQ's codes for a call that is not where it was: gone, its lock gone or another's, not in the list it is moved from. */
export function isGone(error: unknown): boolean {
  return [-1, LOCK_MISSING, -3, -6].some((code) => code === codeOf(error));
}

/** The call's lock has run out, and no other worker has one. */
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
 * The answer to a fetch: how many calls of the queue still wait, the call's id, for how many ms the queue is closed, and the call. Without a
 * call, the last place says in how many ms a delayed one is due, or why the next one was not taken. The second place then has the size of a
 * large call, or the id of a call that must be taken alone (work.lua).
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
