import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { OperatorToken } from "../../../shared/config/operator-toml.ts";
import { headerValues } from "../../../shared/http/headers.ts";
import { sha256 } from "../../../shared/platform/crypto/compare.ts";
import { looksRandom } from "../../../shared/platform/crypto/random-secret.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { Lockout } from "./lockout.ts";
import type { Sessions } from "./sessions.ts";
import { LOOPBACK_OPERATOR, type Who } from "./who.ts";

/**
 * Returns the configured token with this secret. Throws `operator.unauthorized`, and `request.rate_limited` after too
 * many wrong tokens.
 */
export type CheckToken = (text: string, address: string) => OperatorToken;

/**
 * Compares the text with every secret of every token, in constant time. A random token is accepted even if the client's
 * address has sent too many wrong tokens (lockout.ts). Such a token cannot be guessed, and a limit would let others at
 * the address lock out the token's owner. A token that could be guessed is accepted only while the address may still
 * try. Otherwise an address beyond its limit could still find out which token is right.
 */
export function createCheckToken(tokens: readonly OperatorToken[], lockout: Lockout): CheckToken {
  const known = tokens.flatMap((token) =>
    token.token.map((secret) => ({ token, digest: sha256(secret.bytes()), isRandom: looksRandom(secret) })),
  );
  return (text, address) => {
    const digest = sha256(Buffer.from(text));
    const [found] = known.filter((each) => timingSafeEqual(each.digest, digest));
    if (!found?.isRandom) {
      const release = lockout.takeTry(address);
      if (found === undefined) throw unauthorized("unknown token");
      release();
    }
    lockout.trust(address);
    return found.token;
  };
}

/**
 * Identifies the client of a request. Throws `operator.unauthorized`, and the errors of `CheckToken` and
 * `Sessions.find`.
 */
export type Identify = (req: IncomingMessage, address: string) => Promise<Who>;

type Deps = { tokens: readonly OperatorToken[]; checkToken: CheckToken; sessions: Sessions };

/**
 * Identifies a client by the token in the header `Authorization` or, without this header, by the session's cookie. If
 * no token is configured, every client is an operator.
 */
export function createIdentify({ tokens, checkToken, sessions }: Deps): Identify {
  return async (req, address) => {
    const [header, ...more] = headerValues(req, "authorization");
    if (more.length > 0) throw unauthorized("the Authorization header was sent more than once");
    if (tokens.length === 0) return LOOPBACK_OPERATOR;
    if (header === undefined) {
      const who = await sessions.find(req);
      if (who !== undefined) return who;
      throw unauthorized("a token or a valid session is required");
    }
    const text = /^bearer +([!-~]+)$/i.exec(header)?.[1];
    if (text === undefined) throw unauthorized("the Authorization header must be: Bearer <token>");
    const { name, role } = checkToken(text, address);
    return { name, role, by: "token" };
  };
}

function unauthorized(detail: string): AppError {
  return AppError.public("operator.unauthorized", detail);
}
