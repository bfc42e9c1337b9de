import type { KeyObject } from "node:crypto";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { keysFor } from "../../../shared/webhook-auth/key.ts";
import { parsePrivateKey, publicHalf } from "../../../shared/webhook-auth/private-key.ts";
import type { Scheme } from "../../../shared/webhook-auth/signature-scheme.ts";

const HOW_TO_PAIR: Readonly<Record<string, string>> = {
  ed25519: "openssl genpkey -algorithm ed25519 -out key.pem",
  "ecdsa-p256": "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem",
};

/** The key of `--key`, if it is the private half of a secret of the endpoint. */
export function privateKeyFor(
  { algorithm, secret_format }: Scheme,
  key: Secret | undefined,
  secrets: readonly Secret[],
): KeyObject {
  if (key === undefined)
    throw new Error(
      `this sender signs with a private key (${algorithm}) that only the sender has. To test the endpoint, create your own key (${HOW_TO_PAIR[algorithm]}) and use --key file:/path/key.pem. If its public half is not the configured secret, this command prints it`,
    );
  const parsed = parsePrivateKey(key.reveal(), algorithm);
  if (parsed === undefined)
    throw new Error(
      `--key must be a private key for ${algorithm}: PEM, PKCS #8 in base64, whsk_… or hex digits`,
    );
  const half = publicHalf(parsed, secret_format);
  if (!secrets.some((secret) => isSameKey(secret, half, algorithm, secret_format)))
    throw new Error(
      `--key does not match the secret of the endpoint, so the gateway would answer 401. The public half of the key is ${half}`,
    );
  return parsed;
}

function isSameKey(
  secret: Secret,
  half: string,
  algorithm: Scheme["algorithm"],
  format: Scheme["secret_format"],
) {
  const scheme: Scheme = { algorithm, ...(format !== undefined && { secret_format: format }) };
  const [ofSecret, ofHalf] = [secret, { reveal: () => half } as Secret].map(
    (each) => keysFor([scheme], [each])[0]?.[0],
  );
  return ofHalf !== undefined && ofSecret?.equals(ofHalf) === true;
}
