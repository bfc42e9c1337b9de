import type { KeyObject } from "node:crypto";
import { type Proof, secretText } from "../auth-modes.ts";
import { keysFor } from "../key.ts";
import { needsPrivateKey } from "../private-key.ts";
import type { Scheme } from "../signature-scheme.ts";
import { type Draft, withHeader } from "./draft.ts";
import type { Sender } from "./sender.ts";
import { signDelivery } from "./sign.ts";

type AddProof<By extends Proof["by"]> = (
  draft: Draft,
  proof: Extract<Proof, { by: By }>,
  delivery: { sender: Sender; at: Date; id: string },
) => Draft;

/** How a delivery gets each kind of proof. */
const SIGNERS: { readonly [By in Proof["by"]]: AddProof<By> } = {
  nothing: (draft) => draft,
  secret: (draft, proof, { sender: { secrets } }) =>
    withHeader(draft, [proof.header], secretText(proof, secrets[0]?.reveal() ?? "")),
  schemes(draft, { schemes }, { sender, at, id }) {
    const { scheme, key } = chooseKey(schemes, sender);
    return signDelivery(draft, { scheme, key, at, id, publicUrl: sender.endpoint.public_url });
  },
};

/** Gives a delivery the credential that its endpoint requires. */
export function withCredential(draft: Draft, sender: Sender, at: Date, id: string): Draft {
  const { proof } = sender.endpoint;
  return (SIGNERS[proof.by] as AddProof<Proof["by"]>)(draft, proof, { sender, at, id });
}

/** The first way to sign for which there is a key. Throws what is missing. */
function chooseKey(
  schemes: readonly Scheme[],
  { secrets, privateKey }: Sender,
): { scheme: Scheme; key: KeyObject } {
  const keys = keysFor(schemes, secrets);
  const at = schemes.findIndex((_, index) => (keys[index] ?? []).length > 0);
  const scheme = schemes[at];
  const [key] = keys[at] ?? [];
  if (scheme === undefined || key === undefined)
    throw new Error("the endpoint has no secret: set one in webhooks.toml");
  return needsPrivateKey(scheme.algorithm) ? { scheme, key: privateKey(scheme) } : { scheme, key };
}
