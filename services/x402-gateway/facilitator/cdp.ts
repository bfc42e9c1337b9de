import { randomBytes } from "node:crypto";
import { SignJWT } from "jose";
import type { FacilitatorConfig } from "../../../shared/config/facilitators.ts";
import { readCdpKey } from "../../../shared/platform/crypto/cdp-key.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Authorize } from "./authorize.ts";

/** Lifetime of a token. CDP accepts a token for this long. */
const TOKEN_SECS = 120;

/**
 * Creates a function that makes a bearer token (JWT, RFC 7519) for each request to the facilitator of Coinbase's developer
 * platform (CDP). A token is valid only for one method, host and path, as CDP's documentation of authentication requires.
 */
export function createCdpSigner(cdp: NonNullable<FacilitatorConfig["cdp"]>, clock: Clock): Authorize {
  const { alg, key } = readCdpKey(cdp.key_secret.reveal());
  const kid = cdp.key_id.reveal();
  return async ({ method, host, path }) => {
    const now = Math.floor(clock() / 1000);
    const token = await new SignJWT({ uris: [`${method} ${host}${path}`] })
      .setProtectedHeader({ alg, kid, typ: "JWT", nonce: randomBytes(16).toString("hex") })
      .setIssuer("cdp")
      .setSubject(kid)
      .setIssuedAt(now)
      .setNotBefore(now)
      .setExpirationTime(now + TOKEN_SECS)
      .sign(key);
    return { authorization: `Bearer ${token}` };
  };
}
