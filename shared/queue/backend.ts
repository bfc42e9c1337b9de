import { type QueueBaseOptions, QueueKeys, type RedisConnection, RedisQueueBackend } from "bullmq";
import { Batches } from "../redis/batches.ts";
import type { Redis } from "../redis/connect.ts";
import type { Partition } from "../redis/partition.ts";
import { type Script, script } from "../redis/script.ts";
import type { ResultMark } from "../results/answer.ts";
import { RESULT_LIMITS, type ResultLimits } from "../results/keep-result.ts";
import type { PreparedCallback } from "./callbacks.ts";
import { RANDOM_ID_KEEP_MS, type RecordState } from "./protocol.ts";
import { gateOf, type QueueName } from "./queue-name.ts";
import { AFTER_REFUND, answerOf, surroundedScripts, workLua } from "./scripts.ts";

/** A call just taken. */
export type FetchedCall = {
  kind: "call";
  id: string;
  /** The call as stored. */
  data: string;
  /** When it came into the queue, unix ms. */
  queuedAt: number;
  attemptsMade: number;
  attemptsStarted: number;
  /** How many processes have ended with it in hand. */
  crashes: number;
  /** How many calls of its queue waited still; 0 if it was taken at the end of another one, or if its job has limits. */
  waiting: number;
  /** The state that its record had, if it has one; NEWER if a later release wrote it. */
  record: RecordState | "NEWER" | undefined;
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
  /** There is a next call, and it needs another fetch: it is not an ordinary one, or the answer would be long. */
  | { kind: "refetch" };

/** For which next call there is room. */
export type Room = {
  /** How large it may be as stored, in bytes; undefined: as large as it is. */
  readonly bytes: number | undefined;
  /** Whether the worker has no other call in hand. */
  readonly alone: boolean;
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
};

/** What the record of an injected call says from now on, and for how long; and who is told. */
type Recorded = Pick<Injected, "retried" | "result" | "callback"> & { keepMs: number };

type Args = (string | number | Buffer)[];

/**
 * BullMQ's work on one queue. Any number of them share one connection, and one that is not used costs nothing: neither
 * BullMQ's Queue nor its Worker would do, since they hold a connection or timers each.
 */
export class QueueBackend extends RedisQueueBackend {
  readonly #scripts: ReadonlyMap<string, Surrounded>;
  /** What ends the ARGV of each script (scripts.ts). */
  readonly #tail: readonly (string | number)[];
  readonly #steps: Steps;
  readonly #names: readonly [gate: string, queue: string];

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
    this.#scripts = opened.scripts;
    this.#steps = opened.steps;
    this.#names = [gateOf(queue), queue];
    this.#tail = [prefix, ...this.#names];
  }

  /** Takes the next call, if there is room for it. */
  async fetch(token: string, { bytes, alone }: Room): Promise<Fetched> {
    const words = [...this.#names, token, "", "", 0, 1, bytes ?? "", alone ? 1 : 0, "", ""];
    return toFetched(answerOf(await this.#steps.add(words, 0)));
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

  async #end(
    id: string,
    token: string,
    fetchNext: FetchNext,
    injected?: Recorded,
  ): Promise<Fetched | undefined> {
    const record = [injected?.keepMs ?? "", injected?.retried ? 1 : 0];
    const next = [fetchNext ? 1 : 0, fetchNext?.bytes ?? 0, 0];
    const result = injected?.result;
    const told = result?.known === "kept" ? result.value : (result?.known ?? "");
    const words = [...this.#names, token, id, ...record, ...next, told, injected?.callback ?? ""];
    const answer = answerOf(await this.#steps.add(words, told.length));
    if (answer === AFTER_REFUND) throw new AfterRefund();
    if (typeof answer === "number" && answer < 0) {
      throw this.finishedErrors({ code: answer, jobId: id, command: "moveToFinished", state: "active" });
    }
    return fetchNext && toFetched(answer);
  }

  /** BullMQ's one way to Redis for its scripts. `args` are the KEYS, followed by the ARGV. */
  override execCommand(...[, command, args]: Parameters<RedisQueueBackend["execCommand"]>): unknown {
    const surrounded = this.#scripts.get(command);
    if (surrounded === undefined) throw new Error(`no Lua of ours is around BullMQ's script ${command}`);
    const { keys, run } = surrounded;
    const words = args as Args;
    return run(words.slice(0, keys) as string[], [...words.slice(keys), ...this.#tail]);
  }
}

/** A script of BullMQ's with ours around it. `keys` is how many KEYS of BullMQ's it has. */
type Surrounded = { keys: number; run: Script };

type OpenedPartition = {
  partition: Partition;
  scripts: ReadonlyMap<string, Surrounded>;
  steps: Steps;
};

/** The ends and fetches that come in one turn of the event loop go to Redis together, whichever queues they are of. */
type Steps = Batches<Args, unknown>;

function createSteps({ redis, keys, prefix }: Partition, work: Work | undefined): Steps {
  const run = script(redis, workLua());
  const { resultMs, bytesMax } = work?.results ?? RESULT_LIMITS;
  const worker = [
    ...[work?.name ?? "", work?.lockDuration ?? 0, OF_ALL.metrics.maxDataPoints],
    ...[resultMs, bytesMax],
  ];
  return new Batches(async (steps: readonly Args[]) => {
    return (await run([keys.queues], [prefix, ...worker, ...steps.flat()])) as unknown[];
  });
}

/** How a worker takes calls; BullMQ's names, but for what is kept of results. */
export type Work = {
  name: string;
  lockDuration: number;
  stalledInterval: number;
  results?: ResultLimits | undefined;
};

/** The same for all workers; BullMQ's names. */
const OF_ALL = {
  /** However often a worker dies with a call in hand, the call waits again: a crash never makes a call FAILED. */
  maxStalledCount: 1_000_000,
  metrics: { maxDataPoints: 60 },
};

export type Backends = (queue: QueueName) => QueueBackend;

/** The queues of a partition, for whoever changes them. */
export function openBackends(partition: Partition, work?: Work): Backends {
  const opened = {
    partition,
    scripts: scriptsOn(partition.redis),
    steps: createSteps(partition, work),
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

function scriptsOn(redis: Redis): ReadonlyMap<string, Surrounded> {
  return new Map(
    surroundedScripts().map(({ command, keys, lua }) => [command, { keys, run: script(redis, lua) }]),
  );
}

/** The runner has taken a call whose refund was exported meanwhile. Its record says when; its state stays. */
export class AfterRefund extends Error {
  constructor() {
    super("the runner took the call after its refund was exported");
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

/**
 * BullMQ's answer to a fetch. Ours puts the call in the last place, and in the first how many waited still; or in the last a word that
 * says why there is none: the second place then has the size of a call that is too large, or the id of one that is to be taken alone
 * (scripts.ts).
 */
type Answer = [waiting: number, idOrBytes: string | number, closedMs: number, last: number | string | Job];

type Job = [
  ...[data: string, timestamp: number, made: number, started: number, crashes: number],
  ...[state: string, windowMs: string],
];

function toFetched(answer: unknown): Fetched {
  const [waiting = 0, id, closedMs = 0, last = 0] = (answer || []) as Partial<Answer>;
  if (Array.isArray(last)) return toCall(String(id), waiting, last);
  if (last === "LARGE") return { kind: "large", bytes: Number(id) };
  if (last === "ALONE") return { kind: "alone", id: String(id) };
  if (last === "REFETCH") return { kind: "refetch" };
  const recheckInMs = closedMs > 0 ? closedMs : Number(last);
  return { kind: "none", recheckInMs: recheckInMs > 0 ? recheckInMs : undefined };
}

function toCall(id: string, waiting: number, job: Job): FetchedCall {
  const [data, queuedAt, attemptsMade, attemptsStarted, crashes, state, windowMs] = job;
  return {
    ...{ kind: "call", id, data, queuedAt, attemptsMade, attemptsStarted, crashes, waiting },
    record: (state || undefined) as FetchedCall["record"],
    windowMs: windowMs ? Number(windowMs) : undefined,
  };
}
