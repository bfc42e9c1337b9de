import type { KeyObject } from "node:crypto";
import { sha256 } from "./compare.ts";

/** Members of a JWK that a thumbprint covers, in order (RFC 7638, section 3.2). */
const MEMBERS = ["crv", "e", "kty", "n", "x", "y"] as const;

/** Returns the thumbprint of a public key in base64url (RFC 7638). */
export function thumbprintOf(publicKey: KeyObject): string {
  const jwk = publicKey.export({ format: "jwk" });
  const members = MEMBERS.flatMap((name) => (jwk[name] === undefined ? [] : [[name, jwk[name]]]));
  return sha256(Buffer.from(JSON.stringify(Object.fromEntries(members)))).toString("base64url");
}
