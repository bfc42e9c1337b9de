import { randomUUID } from "node:crypto";
import type { Redis } from "../../shared/redis/connect.ts";
import { runnerKeys } from "../../shared/redis/keys.ts";
import { EVEN_IF_FULL, NOW, script } from "../../shared/redis/script.ts";
import { VERSIONS } from "../../shared/redis/version.ts";

/*
 * The results of long calls that no gateway has taken yet. The step that ends a call writes its result here (call-store.ts); any runner
 * on this Redis claims it, delivers it and removes it. The fields of the hash: v; token, which tells this result from a later one of the
 * same call; tries; status, type and body. `body` is absent if it was longer than is kept.
 */

/** What is delivered of a call that has ended. */
export type Outgoing = {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: Buffer | "too long";
};

/** An `Outgoing` that this runner has claimed. */
export type ClaimedDelivery = Outgoing & {
  readonly callId: string;
  readonly token: string;
  /** How often it was claimed, this time included. */
  readonly tries: number;
};

/**
 * Lua: `deliverLater(key, due, id, ms, first)` stores what ARGV has from `first` on: a token, which is empty if there is nothing to
 * deliver, the status, the Content-Type, and the body if it is kept. What waits for the same call gives way. It needs `now`.
 */
export const DELIVER_LATER = `
local function deliverLater(key, due, id, ms, first)
  if ARGV[first] == '' then return end
  redis.call('DEL', key)
  redis.call('HSET', key, 'v', ${VERSIONS.runnerDelivery}, 'token', ARGV[first], 'tries', 0, 'status', ARGV[first + 1],
    'type', ARGV[first + 2])
  if ARGV[first + 3] then redis.call('HSET', key, 'body', ARGV[first + 3]) end
  redis.call('PEXPIRE', key, ms)
  redis.call('ZADD', due, now, id)
end`;

/** The last words of a script with `DELIVER_LATER`. */
export function outgoingWords(outgoing: Outgoing | undefined): (string | number | Buffer)[] {
  if (outgoing === undefined) return [""];
  const { status, contentType = "", body } = outgoing;
  return [randomUUID(), status, contentType, ...(body === "too long" ? [] : [body])];
}

/* ARGV: how many at most. */
const DUE = `${NOW}
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])`;

/* ARGV: id, ms until another runner may claim it. A later release's is left to its runners. */
const CLAIM = `${EVEN_IF_FULL}${NOW}
local due = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not due or tonumber(due) > now then return false end
local found = redis.call('HMGET', KEYS[1], 'token', 'status', 'type', 'body', 'v')
if not found[1] then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return false
end
redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
if tonumber(found[5]) > ${VERSIONS.runnerDelivery} then return false end
found[5] = redis.call('HINCRBY', KEYS[1], 'tries', 1)
return found`;

/* ARGV: id, token. */
const END = `
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[2] then return end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])`;

/* ARGV: id, token, ms. */
const PUT_OFF = `${EVEN_IF_FULL}${NOW}
if redis.call('HGET', KEYS[1], 'token') == ARGV[2] then redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1]) end`;

export type DeliveryStore = ReturnType<typeof createDeliveryStore>;

/**
 * What waits to be delivered. No write here needs to be on disk when it resolves: what was delivered and is delivered again changes
 * nothing. Nothing is retried.
 */
export function createDeliveryStore(redis: Redis) {
  const due = script(redis, DUE);
  const claim = script(redis, CLAIM, "bytes");
  const end = script(redis, END);
  const putOff = script(redis, PUT_OFF);
  const keysOf = (id: string) => [runnerKeys.delivery(id), runnerKeys.deliveries];

  return {
    /** Calls whose result has to be delivered now, the longest due first. */
    async due(countMax: number): Promise<string[]> {
      return (await due([runnerKeys.deliveries], [countMax])) as string[];
    },

    /** Undefined if another runner was faster. It may claim it too once so many ms have passed. */
    async claim(callId: string, ms: number): Promise<ClaimedDelivery | undefined> {
      const reply = (await claim(keysOf(callId), [callId, ms])) as (Buffer | null)[] | null;
      if (reply === null) return undefined;
      const [token, status, type, body, tries] = reply;
      return {
        callId,
        token: String(token),
        status: Number(status),
        contentType: type?.toString() || undefined,
        body: body ?? "too long",
        tries: Number(tries),
      };
    },

    /** It is delivered, or never will be. */
    async end({ callId, token }: ClaimedDelivery): Promise<void> {
      await end(keysOf(callId), [callId, token]);
    },

    async putOff({ callId, token }: ClaimedDelivery, ms: number): Promise<void> {
      await putOff(keysOf(callId), [callId, token, ms]);
    },
  };
}
