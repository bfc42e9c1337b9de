import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { OperatorToken } from "../../../shared/config/operator-toml.ts";
import { headerValues } from "../../../shared/http/headers.ts";
import { sha256 } from "../../../shared/platform/crypto/compare.ts";
import { looksRandom } from "../../../shared/platform/crypto/random-secret.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { Lockout } from "./lockout.ts";
import type { Sessions } from "./sessions.ts";
import { ANYBODY_HERE, type Who } from "./who.ts";

/** Finds the token that this is. Throws `operator.unauthorized`, and `request.rate_limited` after too many wrong ones. */
export type CheckToken = (text: string, address: string) => OperatorToken;

/**
 * Compares with every secret of every token, in a time that tells nothing of them. A random token is let in however many wrong ones its
 * address has sent: nobody finds it by trying, and otherwise anybody at that address could keep its owner out. A token that might be
 * guessed is let in only while its address has tries left, so an address without them learns of it no more than of a wrong one.
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

/** Who asks. Throws `operator.unauthorized`. */
export type Identify = (req: IncomingMessage, address: string) => Promise<Who>;

type Deps = { tokens: readonly OperatorToken[]; checkToken: CheckToken; sessions: Sessions };

/** By the token in `Authorization`, if there is one; else by the session's cookie. Without any token whoever asks is an operator. */
export function createIdentify({ tokens, checkToken, sessions }: Deps): Identify {
  return async (req, address) => {
    const [header, ...more] = headerValues(req, "authorization");
    if (more.length > 0) throw unauthorized("the Authorization header was sent more than once");
    if (tokens.length === 0) return ANYBODY_HERE;
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
