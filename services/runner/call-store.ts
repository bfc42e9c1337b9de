import type { Redis } from "../../shared/redis/connect.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import { script } from "../../shared/redis/script.ts";
import type { Offer } from "./offer.ts";
import type { HttpAnswer } from "./router.ts";
import { keys, NOW } from "./store-keys.ts";

const BEGIN = `${NOW}
local id, request, owner, lease, memory = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local seen = redis.call('HMGET', KEYS[1], 'st', 'request', 'owner', 'lease', 'status', 'type', 'answer')
if seen[1] then
  if seen[2] ~= request then return {'REUSED'} end
  if seen[1] ~= 'FAILED' and seen[7] then return {'ANSWERED', seen[5], seen[6], seen[7]} end
  if seen[1] == 'RUNNING' and seen[3] ~= owner and tonumber(seen[4]) > now then return {'RUNNING'} end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'st', 'RUNNING', 'request', request, 'owner', owner, 'lease', now + lease, 'at', now,
  'job', ARGV[6], 'bytes', ARGV[7], 'sha256', ARGV[8])
redis.call('PEXPIRE', KEYS[1], memory + lease)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + memory, id)
redis.call('ZREM', KEYS[3], id)
return {'NEW'}`;

const RENEW = `${NOW}
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'lease', now + ARGV[3])
redis.call('ZADD', KEYS[2], 'XX', now + ARGV[3], ARGV[1])
if redis.call('PTTL', KEYS[1]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[4] + ARGV[3]) end
return 1`;

const FINISH = `${NOW}
local id, memory = ARGV[1], ARGV[2]
local seen = redis.call('HMGET', KEYS[1], 'st', 'status', 'type', 'answer')
if seen[1] == 'DONE' then return {seen[2], seen[3], seen[4]} end
redis.call('HSET', KEYS[1], 'st', 'DONE', 'finished', now, 'request', ARGV[3], 'job', ARGV[4], 'bytes', ARGV[5],
  'sha256', ARGV[6], 'status', ARGV[7], 'type', ARGV[8], 'answer', ARGV[9])
redis.call('HSETNX', KEYS[1], 'at', now)
redis.call('HDEL', KEYS[1], 'owner', 'lease', 'input', 'input_type', 'metadata', 'traceparent', 'code', 'reason')
redis.call('PEXPIRE', KEYS[1], memory)
redis.call('ZADD', KEYS[2], now + memory, id)
redis.call('ZREM', KEYS[3], id)
return false`;

const FAIL = `${NOW}
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'st', 'FAILED', 'finished', now, 'code', ARGV[3], 'reason', ARGV[4], 'status', ARGV[5])
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'attempts', ARGV[6]) end
redis.call('HDEL', KEYS[1], 'owner', 'lease')
redis.call('ZREM', KEYS[2], ARGV[1])
return 1`;

/** What a request to run a call finds. */
export type Begun =
  | { kind: "new" }
  /** It was answered before: that answer is the only one. */
  | { kind: "answered"; answer: HttpAnswer }
  /** Another runner holds its lease. */
  | { kind: "running" }
  /** The key stands for another job or other bytes. */
  | { kind: "reused" };

/** Why a call failed; `status` is what its sender was answered, `attempts` how many runs of a long call it took. */
export type Failure = { code: string; reason: string; status: number; attempts?: number };

/** Of a call, what its record is made of. */
export type Subject = Pick<Offer, "callId" | "jobId" | "bytes" | "sha256">;

export type CallStore = ReturnType<typeof createCallStore>;
export type StoreOptions = {
  durable: DurableRedis;
  /** Unique to this runner: what it left RUNNING is its own to begin again. */
  owner: string;
  leaseMs: number;
  memoryMs: number;
};

/** The durable memory of calls. Every method is one atomic script, on disk when it resolves; none is retried here. */
export function createCallStore({ durable, owner, leaseMs, memoryMs }: StoreOptions) {
  const scripts = loadScripts(durable.redis);

  return {
    /** Marks the call as running here, under a lease; or tells what is known of it. */
    async begin(call: Subject): Promise<Begun> {
      const { callId: id, jobId, bytes, sha256 } = call;
      const args = [id, requestOf(call), owner, leaseMs, memoryMs, jobId, bytes, sha256];
      const reply = await durable.write(() => scripts.begin([keys.call(id), keys.calls, keys.due], args));
      return toBegun(reply as string[]);
    },

    /** False when the call is no longer this runner's. */
    async renew(id: string): Promise<boolean> {
      return (await scripts.renew([keys.call(id), keys.due], [id, owner, leaseMs, memoryMs])) === 1;
    },

    /** Remembers the answer of a call that was run, and gives the first one: another runner may have been faster. */
    async finish(call: Subject, answer: HttpAnswer): Promise<HttpAnswer> {
      const { callId: id, jobId, bytes, sha256 } = call;
      const args = [id, memoryMs, requestOf(call), jobId, bytes, sha256, ...toFields(answer)];
      const reply = await durable.write(() => scripts.finish([keys.call(id), keys.calls, keys.due], args));
      return reply === null ? answer : toAnswer(reply as string[]);
    },

    /**
     * Ends the run without an answer: the next offer of the call runs it again. A short call is forgotten when it would
     * have been; a long one is kept, since somebody was told that it will be run.
     */
    async fail(id: string, { code, reason, status, attempts }: Failure): Promise<void> {
      const args = [id, owner, code, reason, status, attempts ?? ""];
      await durable.write(() => scripts.fail([keys.call(id), keys.due], args));
    },
  };
}

function loadScripts(redis: Redis) {
  return {
    begin: script(redis, BEGIN),
    renew: script(redis, RENEW),
    finish: script(redis, FINISH),
    fail: script(redis, FAIL),
  };
}

/** What one key may stand for. */
export function requestOf({ jobId, sha256 }: Pick<Subject, "jobId" | "sha256">): string {
  return `${jobId}:${sha256}`;
}

function toBegun([kind, ...answer]: string[]): Begun {
  switch (kind) {
    case "ANSWERED":
      return { kind: "answered", answer: toAnswer(answer) };
    case "RUNNING":
      return { kind: "running" };
    case "REUSED":
      return { kind: "reused" };
    default:
      return { kind: "new" };
  }
}

export function toFields({ status, contentType, body }: HttpAnswer): [number, string, string] {
  return [status, contentType ?? "", body.toString("base64")];
}

function toAnswer([status, type, body]: string[]): HttpAnswer {
  return { status: Number(status), contentType: type || undefined, body: Buffer.from(body ?? "", "base64") };
}
