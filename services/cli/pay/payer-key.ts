import type { Env } from "../../../shared/config/secret-value.ts";
import { Secret } from "../../../shared/crypto/secret.ts";

/** The order of the group of secp256k1 (SEC 2, section 2.4.1): private keys are below it. */
const ORDER = 0xffff_ffff_ffff_ffff_ffff_ffff_ffff_fffe_baae_dce6_af48_a03b_bfd2_5e8c_d036_4141n;

/** The payer's private key as 0x and 64 hex digits; undefined where there is none that can sign. */
export function payerKey(env: Env): Secret | undefined {
  const digits = /^(?:0x)?([0-9a-fA-F]{64})$/.exec(env["POSTERN_PAYER_KEY"]?.trim() ?? "")?.[1];
  if (digits === undefined) return undefined;
  const number = BigInt(`0x${digits}`);
  return number > 0n && number < ORDER ? new Secret(`0x${digits}`) : undefined;
}
