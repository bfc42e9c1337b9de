import { generateKeyPairSync, randomBytes } from "node:crypto";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { secretProblem } from "../../../shared/webhook-auth/key.ts";
import type { Preset } from "../../../shared/webhook-auth/sender-description.ts";
import type { Scheme } from "../../../shared/webhook-auth/signature-scheme.ts";

export function newSecret(): string {
  return randomBytes(32).toString("hex");
}

/** Makes a secret in the format of Standard Webhooks: `whsec_` and base64. */
export function newWhsec(): string {
  return `whsec_${randomBytes(32).toString("base64")}`;
}

/** Makes a secret in the format of this sender's secrets. */
export function newSecretFor(preset: Preset | undefined): string {
  const schemes = ([preset?.endpoint.signature ?? []] as (Scheme | readonly Scheme[])[]).flat(2) as Scheme[];
  if (schemes.length === 0) return newSecret();
  const fitting = FORMS.map((form) => form()).find(
    (text) => secretProblem(new Secret(text), schemes) === undefined,
  );
  return fitting ?? newSecret();
}

/**
 * Functions that make a secret, each in another format. `newSecretFor` uses the first one whose secret is valid for the
 * sender's signatures. If the sender signs with a private key, the secret is a public key. It is only a placeholder,
 * which the operator must replace with the sender's public key. So its private key is not kept.
 */
const FORMS: readonly (() => string)[] = [
  newSecret,
  newWhsec,
  () => ed25519().toString("hex"),
  () => `whpk_${ed25519().toString("base64")}`,
  () =>
    generateKeyPairSync("ec", { namedCurve: "P-256" })
      .publicKey.export({ type: "spki", format: "der" })
      .toString("base64"),
];

function ed25519(): Buffer {
  return generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "der" }).subarray(-32);
}
