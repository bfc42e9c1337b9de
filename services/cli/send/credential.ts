import type { KeyObject } from "node:crypto";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { type Proof, secretText } from "../../../shared/webhook-auth/auth-modes.ts";
import { keysFor } from "../../../shared/webhook-auth/key.ts";
import { parsePrivateKey, publicHalf } from "../../../shared/webhook-auth/private-key.ts";
import { needsPrivateKey, type Scheme } from "../../../shared/webhook-auth/signature-scheme.ts";
import { type Draft, withHeader } from "./draft.ts";
import { signDelivery } from "./sign.ts";
import type { Target } from "./target.ts";

type AddProof<By extends Proof["by"]> = (
  draft: Draft,
  proof: Extract<Proof, { by: By }>,
  delivery: { target: Target; at: Date; id: string },
) => Draft;

/** How a delivery gets each kind of proof. */
const SIGNERS: { readonly [By in Proof["by"]]: AddProof<By> } = {
  nothing: (draft) => draft,
  secret: (draft, proof, { target: { secrets } }) =>
    withHeader(draft, [proof.header], secretText(proof, secrets[0]?.reveal() ?? "")),
  schemes(draft, { schemes }, { target, at, id }) {
    const { scheme, key } = chooseKey(schemes, target);
    return signDelivery(draft, { scheme, key, at, id, publicUrl: target.endpoint.public_url });
  },
};

/** Gives a delivery the credential that its endpoint asks for. */
export function withCredential(draft: Draft, target: Target, at: Date, id: string): Draft {
  const { proof } = target.endpoint;
  return (SIGNERS[proof.by] as AddProof<Proof["by"]>)(draft, proof, { target, at, id });
}

/** The first way to sign for which there is a key. Throws what is missing. */
function chooseKey(schemes: readonly Scheme[], target: Target): { scheme: Scheme; key: KeyObject } {
  const keys = keysFor(schemes, target.secrets);
  const at = schemes.findIndex((_, index) => (keys[index] ?? []).length > 0);
  const scheme = schemes[at];
  const [key] = keys[at] ?? [];
  if (scheme === undefined || key === undefined)
    throw new Error("the endpoint has no secret: set one in webhooks.toml, or use --secret");
  return needsPrivateKey(scheme.algorithm) ? { scheme, key: privateKey(scheme, target) } : { scheme, key };
}

const HOW_TO_PAIR: Readonly<Record<string, string>> = {
  ed25519: "openssl genpkey -algorithm ed25519 -out key.pem",
  "ecdsa-p256": "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem",
};

/** The private half of the endpoint's public key. */
function privateKey({ algorithm, secret_format }: Scheme, { key, secrets }: Target): KeyObject {
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
