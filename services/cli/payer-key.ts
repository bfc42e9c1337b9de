import { isPrivateKey, NO_PRIVATE_KEY } from "../../shared/chain/signatures.ts";
import type { Env } from "../../shared/config/secrets.ts";
import { Secret } from "../../shared/platform/crypto/secret.ts";

/** Reads the payer's private key: 64 hex digits, with or without 0x. Returns undefined if there is none that can sign. */
export function payerKey(env: Env): Secret | undefined {
  const text = env["POSTERN_PAYER_KEY"]?.trim() ?? "";
  return isPrivateKey(text) ? new Secret(text) : undefined;
}

/** What to tell whoever has no such key. */
export function whyNoKey(env: Env): string {
  const isSet = (env["POSTERN_PAYER_KEY"] ?? "") !== "";
  return `POSTERN_PAYER_KEY ${isSet ? "" : "is not set; it "}${NO_PRIVATE_KEY}`;
}
