import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { OperatorToken } from "../../../shared/config/operator-toml.ts";
import { headerValues } from "../../../shared/http/headers.ts";
import { hmacSha256, isSignedByAny } from "../../../shared/platform/crypto/hmac.ts";
import { AppError, messageOf } from "../../../shared/platform/errors/app-error.ts";
import { createShortCache } from "../../../shared/platform/lifecycle/short-cache.ts";
import { CLOCK_CHANGE_MS, type Clock } from "../../../shared/platform/time/clock.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { confirmed } from "../../../shared/redis/prover.ts";
import type { Who } from "./who.ts";

/** By how much a session may seem longer than any is, because Redis' clock was set back. */
const SKEW_MS = 60_000;

/** Strangers' cookies make this process read the salt once in so long. */
const SALT_KEPT_MS = 1000;

/** Apart from what else a token's secret might sign. */
const CONTEXT = "postern operator session v1 ";

/** When it ends, its own random id, and an HMAC-SHA256 of both. */
const SESSION = /^(\d{13})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/;

export type Sessions = {
  cookieName: string;
  /** A new session of this token: the cookie that is it, its id, and when it ends (unix ms). Throws `queue.unavailable`. */
  begin(token: OperatorToken): Promise<{ cookie: string; id: string; until: number }>;
  /** Whose session the request's cookie is. Undefined if none, or none that holds. Throws `queue.unavailable`. */
  find(req: IncomingMessage): Promise<Who | undefined>;
  /** Ends the sessions of the request that have not ended, at every replica. `cookie` takes them from the browser. */
  end(req: IncomingMessage): Promise<{ cookie: string; ended: { id: string; name: string }[] }>;
};

type Options = {
  tokens: readonly OperatorToken[];
  partition: Partition;
  /** Whether browsers reach the service by https. */
  isSecure: boolean;
  sessionMs: number;
  /** Redis', which also expires what is noted of ended sessions. */
  clock: Clock;
};

type Session = { token: OperatorToken; id: string; until: number };

/**
 * Sessions of the page. One is a cookie that the token's own secret has signed: no session is stored, any replica with this configuration
 * knows it, and it ends with its time, or once the token is no longer configured. Only a session that was ended before its time is noted,
 * in Redis, for as long as it would have held.
 *
 * A random salt in Redis is signed too. Without it a stranger could sign cookies with guessed tokens, and the answer would say which is
 * right, past the limit of wrong tokens. A stolen cookie would say it without the service.
 */
export function createSessions({ tokens, partition, isSecure, sessionMs, clock }: Options): Sessions {
  const { redis, keys } = partition;
  // A browser takes a name with this prefix only over https, from this very host, for all its paths.
  const name = isSecure ? "__Host-postern" : "postern";
  const attributes = `Path=/; HttpOnly; SameSite=Strict${isSecure ? "; Secure" : ""}`;

  function signed(salt: string, until: string | number, id: string): Buffer {
    return Buffer.from(`${CONTEXT}${salt} ${until}.${id}`);
  }

  const salts = createShortCache<string | null>({
    keptMs: SALT_KEPT_MS,
    keeps: (outcome) => outcome.kind === "done" && outcome.result !== null,
    clock,
  });

  /** Null before the first session of all. */
  function readSalt(): Promise<string | null> {
    return salts.get("salt", () => redis.get(keys.sessionSalt).catch(unavailable));
  }

  async function makeSalt(): Promise<string> {
    const salt = randomBytes(32).toString("base64url");
    const others = await redis.set(keys.sessionSalt, salt, "NX", "GET").catch(unavailable);
    return others ?? salt;
  }

  /** Every token is tried, also after a match. */
  function read(value: string, salt: string): Session | undefined {
    const [, until = "", id = "", mac = ""] = SESSION.exec(value) ?? [];
    // Whoever has a token could sign a session that never ends.
    if (mac === "" || Number(until) <= clock() || Number(until) > clock() + sessionMs + SKEW_MS)
      return undefined;
    const signature = Buffer.from(mac, "base64url");
    const own = tokens.filter(({ token }) => isSignedByAny(token, signature, signed(salt, until, id)));
    return own[0] && { token: own[0], id, until: Number(until) };
  }

  /** A browser may send several cookies of one name, if somebody on a domain above has set one. */
  async function sessionsOf(req: IncomingMessage): Promise<Session[]> {
    const pairs = headerValues(req, "cookie").flatMap((header) => header.split(/; */));
    const values = pairs.filter((pair) => pair.startsWith(`${name}=`)).slice(0, 4);
    const salt = values.length > 0 ? await readSalt() : null;
    return salt === null ? [] : values.flatMap((pair) => read(pair.slice(name.length + 1), salt) ?? []);
  }

  return {
    cookieName: name,

    async begin(token) {
      const salt = (await readSalt()) ?? (await makeSalt());
      const until = clock() + sessionMs;
      const id = randomBytes(16).toString("base64url");
      const [secret] = token.token;
      if (secret === undefined) throw new Error(`token ${token.name} has no secret`);
      const mac = hmacSha256(secret, signed(salt, until, id)).toString("base64url");
      const lives = `Max-Age=${Math.floor(sessionMs / 1000)}`;
      return { cookie: `${name}=${until}.${id}.${mac}; ${lives}; ${attributes}`, id, until };
    },

    async find(req) {
      for (const { token, id, until } of await sessionsOf(req)) {
        const isEnded = await redis.exists(keys.endedSession(id)).catch(unavailable);
        if (isEnded === 0) return { name: token.name, role: token.role, by: "session", until };
      }
      return undefined;
    },

    async end(req) {
      const ended: { id: string; name: string }[] = [];
      const sessions = await sessionsOf(req);
      for (const { id, until, token } of sessions) {
        const left = Math.max(0, until - clock()) + CLOCK_CHANGE_MS;
        const isNew = await redis.set(keys.endedSession(id), "1", "PX", left, "NX").catch(unavailable);
        if (isNew !== null) ended.push({ id, name: token.name });
      }
      if (sessions.length > 0) await confirmed(redis).catch(unavailable);
      return { cookie: `${name}=; Max-Age=0; ${attributes}`, ended };
    },
  };
}

function unavailable(cause: unknown): never {
  const reason = `sessions cannot be checked: ${messageOf(cause)}`;
  throw new AppError("queue.unavailable", { reason, cause });
}
