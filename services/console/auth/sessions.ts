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

/**
 * Tolerance in the check that a session does not end too late. It is needed if Redis' clock was set back after the session
 * began.
 */
const SKEW_MS = 60_000;

/**
 * Time for which this process caches the salt of the signatures, so that many invalid cookies do not cause many reads of
 * Redis.
 */
const SALT_KEPT_MS = 1000;

/** Prefix of the signed text, so that no other signature made with a token's secret is valid for a session. */
const CONTEXT = "postern operator session v1 ";

/**
 * Content of the cookie: the end of the session (unix ms), a random id, and an HMAC-SHA256 of the salt, the end and the
 * id.
 */
const SESSION = /^(\d{13})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/;

export type Sessions = {
  cookieName: string;
  /** Begins a session for this token. Returns its cookie, its id and its end (unix ms). Throws `queue.unavailable`. */
  begin(token: OperatorToken): Promise<{ cookie: string; id: string; until: number }>;
  /**
   * Returns the client of the session in the request's cookie; undefined if the request has no valid session. Throws
   * `queue.unavailable`.
   */
  find(req: IncomingMessage): Promise<Who | undefined>;
  /** Ends the valid sessions of the request, at every replica. The returned `cookie` deletes the cookie in the browser. */
  end(req: IncomingMessage): Promise<{ cookie: string; ended: { id: string; name: string }[] }>;
};

type Options = {
  tokens: readonly OperatorToken[];
  partition: Partition;
  /** Whether browsers reach the service over https. */
  isSecure: boolean;
  sessionMs: number;
  /** Redis' clock, because Redis also expires the records of sessions that were ended early. */
  clock: Clock;
};

type Session = { token: OperatorToken; id: string; until: number };

/**
 * Creates the sessions of the page. A session is a cookie that is signed with the token's secret. No session is stored,
 * and any replica with this configuration can check it. A session ends at the time in its cookie, or when its token is no
 * longer configured. Redis records only sessions that were ended early, until they would have ended by themselves.
 *
 * The signature also covers a random salt in Redis. Without the salt an attacker could sign cookies with guessed tokens
 * and send them. The console's answer would show which guess is right, and the limit on wrong tokens would not apply. With
 * a stolen cookie, an attacker could even check guesses without a request, by comparing signatures.
 */
export function createSessions({ tokens, partition, isSecure, sessionMs, clock }: Options): Sessions {
  const { redis, keys } = partition;
  // A browser accepts a cookie with this prefix only over https, only from this host, and for all its paths.
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

  /** Reads the salt, which every session's signature covers. Null if no session was ever begun. */
  function readSalt(): Promise<string | null> {
    return salts.get("salt", () => redis.get(keys.sessionSalt).catch(unavailable));
  }

  async function makeSalt(): Promise<string> {
    const salt = randomBytes(32).toString("base64url");
    const others = await redis.set(keys.sessionSalt, salt, "NX", "GET").catch(unavailable);
    return others ?? salt;
  }

  /**
   * Finds the token that signed this session. Tries every token, also after a match, so that the time does not show
   * which token matched.
   */
  function read(value: string, salt: string): Session | undefined {
    const [, until = "", id = "", mac = ""] = SESSION.exec(value) ?? [];
    // The end must not be too far away. Otherwise someone who knows a token and the salt in Redis could sign a session
    // that never ends.
    if (mac === "" || Number(until) <= clock() || Number(until) > clock() + sessionMs + SKEW_MS)
      return undefined;
    const signature = Buffer.from(mac, "base64url");
    const own = tokens.filter(({ token }) => isSignedByAny(token, signature, signed(salt, until, id)));
    return own[0] && { token: own[0], id, until: Number(until) };
  }

  /**
   * Returns the valid sessions of a request. There may be several: a browser may send several cookies of this name,
   * because a parent domain can set one too.
   */
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
