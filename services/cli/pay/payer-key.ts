import type { Env } from "../../../shared/config/secrets.ts";
import { Secret } from "../../../shared/crypto/secret.ts";
import { isPrivateKey } from "../../../shared/ethereum/signatures.ts";

/** The payer's private key as 0x and 64 hex digits; undefined where there is none that can sign. */
export function payerKey(env: Env): Secret | undefined {
  const text = env["POSTERN_PAYER_KEY"]?.trim() ?? "";
  const key = text.startsWith("0x") ? text : `0x${text}`;
  return isPrivateKey(key) ? new Secret(key) : undefined;
}
