import { generateKeyPairSync, randomBytes } from "node:crypto";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { secretProblem } from "../../../shared/webhook-auth/key.ts";
import type { Preset } from "../../../shared/webhook-auth/sender-description.ts";
import type { Scheme } from "../../../shared/webhook-auth/signature-scheme.ts";

export function newSecret(): string {
  return randomBytes(32).toString("hex");
}

/** Makes a secret for Standard Webhooks. */
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
 * Functions that make a secret. The first secret that fits the sender's signatures is used. A generated public key is
 * a placeholder: the operator must replace it with the sender's own key, so its private half is discarded.
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
