import { createHash, randomUUID } from "node:crypto";
import { AppError, messageOf } from "../errors/app-error.ts";
import type { Partition } from "../redis/partition.ts";
import { NOW, script } from "../redis/script.ts";
import { unlessNewer, VERSIONS } from "../redis/version.ts";

/** A secret that a sender gave in a handshake, and where the handshake came from. */
export type TakenSecret = { secret: string; address: string; takenAt: number };

/** An endpoint as the operator's command that opened it sees it. */
export type OpenedState =
  | { kind: "open" }
  /** Shown once: it is gone from Redis, and the endpoint is closed. */
  | ({ kind: "secret" } & TakenSecret)
  /** Its time is over, or it was closed. */
  | { kind: "closed" }
  /** Somebody has opened it again, and gets its secret. */
  | { kind: "taken-over"; by: string };

/** How long a secret waits for a command to show it, if the command that opened the endpoint has died. */
const SECRET_KEPT_MS = 10 * 60_000;

const SECRET = /^[!-~]{1,256}$/;

/*
 * What is open is a hash in Redis: v, session (the command that opened it last), by, and once a secret was taken: secret, address,
 * taken_at. It ends with its time. Whoever reads the secret deletes it in the same step, so it is shown at most once; until
 * then a lost command can be run again, and shows it.
 */

/** ARGV session, by, ms. Keeps a secret that nobody has seen, and the time that is left for it. */
const OPEN = `${unlessNewer("opened")}
redis.call('HSET', KEYS[1], 'v', ${VERSIONS.opened}, 'session', ARGV[1], 'by', ARGV[2])
if redis.call('HEXISTS', KEYS[1], 'secret') == 0 then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end`;

/**
 * ARGV secret, address, ms. Answers the hash of the secret that the endpoint has now; nothing if it is not open. The handshake
 * with the same secret may be repeated, since its answer may be lost.
 */
const TAKE = `${NOW}${unlessNewer("opened")}
local found = redis.call('HMGET', KEYS[1], 'session', 'secret')
if not found[1] then return nil end
if found[2] then return redis.sha1hex(found[2]) end
redis.call('HSET', KEYS[1], 'secret', ARGV[1], 'address', ARGV[2], 'taken_at', now)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return redis.sha1hex(ARGV[1])`;

/** ARGV session, and whether to close. Answers the session, by, secret, address and taken_at. A secret is answered once. */
const LOOK = `${unlessNewer("opened")}
local found = redis.call('HMGET', KEYS[1], 'session', 'by', 'secret', 'address', 'taken_at')
if found[1] == ARGV[1] and (found[3] or ARGV[2] == '1') then redis.call('DEL', KEYS[1]) end
return found`;

/** Answers by, and whether a secret is lost; nothing if the endpoint is not open. */
const CLOSE = `${unlessNewer("opened")}
local by, had_secret = redis.call('HGET', KEYS[1], 'by'), redis.call('HEXISTS', KEYS[1], 'secret')
if redis.call('DEL', KEYS[1]) == 0 then return nil end
return {by, had_secret}`;

/** Takes a handshake's secret if an operator has opened this endpoint for one, and no other was taken. */
export type TakeSecret = (path: string, secret: string, address: string) => Promise<boolean>;

/** Anybody can send a handshake: Redis is asked once in this time for each endpoint, and its answer holds for all. */
const ASKED_EVERY_MS = 1000;

/**
 * The gateway's side. Whether an endpoint is open is seen a second later at most. Throws `queue.unavailable` if Redis does not
 * answer; then the handshake may be repeated. `now` is in milliseconds, from any beginning.
 */
export function createTakeSecret(
  { redis, keys }: Partition,
  now: () => number = () => performance.now(),
): TakeSecret {
  const take = script(redis, TAKE);
  const asked = new Map<string, { at: number; hash: Promise<unknown> }>();

  async function ask(path: string, secret: string, address: string): Promise<unknown> {
    try {
      return await take([keys.opened(path)], [secret, address, SECRET_KEPT_MS]);
    } catch (cause) {
      throw new AppError("queue.unavailable", { reason: messageOf(cause), cause });
    }
  }

  return async (path, secret, address) => {
    if (!SECRET.test(secret)) return false;
    const at = now();
    const last = asked.get(path);
    const isFresh = last !== undefined && at - last.at < ASKED_EVERY_MS;
    const hash = isFresh ? last.hash : ask(path, secret, address);
    if (!isFresh) asked.set(path, { at, hash });
    return (await hash) === createHash("sha1").update(secret).digest("hex");
  };
}

/** The operator's side: endpoints that take one secret in a handshake while they are open. */
export function createOpenedEndpoints({ redis, keys }: Partition) {
  const [open, look, close] = [script(redis, OPEN), script(redis, LOOK), script(redis, CLOSE)];
  return {
    /** Opens an endpoint, or takes it over from whoever has opened it before. */
    async open(path: string, by: string, ms: number) {
      const session = randomUUID();
      const key = [keys.opened(path)];
      await open(key, [session, by, ms]);
      return {
        look: async () => toState(await look(key, [session, 0]), session),
        /** A secret that has arrived meanwhile is still shown. */
        close: async () => toState(await look(key, [session, 1]), session),
      };
    },

    /** Closes an endpoint, whoever has opened it; a secret that nobody has seen is lost. Returns what was closed. */
    async close(path: string): Promise<{ by: string; hadSecret: boolean } | undefined> {
      const closed = (await close([keys.opened(path)], [])) as [string, number] | null;
      return closed === null ? undefined : { by: closed[0], hadSecret: closed[1] === 1 };
    },
  };
}

export type OpenedEndpoint = Awaited<ReturnType<ReturnType<typeof createOpenedEndpoints>["open"]>>;

function toState(reply: unknown, own: string): OpenedState {
  const [session, by, secret, address, takenAt] = reply as (string | null)[];
  if (!session) return { kind: "closed" };
  if (session !== own) return { kind: "taken-over", by: by ?? "" };
  if (!secret) return { kind: "open" };
  return { kind: "secret", secret, address: address ?? "", takenAt: Number(takenAt) };
}
