import { isPrivateKey, PRIVATE_KEY_RULE } from "../../shared/chain/signatures.ts";
import type { Env } from "../../shared/config/secrets.ts";
import { Secret } from "../../shared/platform/crypto/secret.ts";

/** Reads the payer's private key: 64 hex digits, with or without 0x. Returns undefined if there is no valid key. */
export function payerKey(env: Env): Secret | undefined {
  const text = env["POSTERN_PAYER_KEY"]?.trim() ?? "";
  return isPrivateKey(text) ? new Secret(text) : undefined;
}

/** Says why there is no valid key, and what to do. */
export function whyNoKey(env: Env): string {
  const isSet = (env["POSTERN_PAYER_KEY"] ?? "") !== "";
  return `POSTERN_PAYER_KEY ${isSet ? "" : "is not set; it "}${PRIVATE_KEY_RULE}`;
}
