import type { IncomingMessage } from "node:http";
import { sha256Hex } from "../../platform/crypto/compare.ts";
import { contentDigest } from "../../platform/crypto/message-signature.ts";
import { componentsOf, type HttpSignature } from "../http-signature/settings.ts";
import { isHeaderComponent, SignedRequest } from "../http-signature/signed-request.ts";
import { type BareItem, serializeBareItem, serializeList } from "../http-signature/structured-fields.ts";
import { HTTP_ALGORITHMS, sign } from "../keys/algorithms.ts";
import type { NamedKey } from "../keys/jwk.ts";
import { type Draft, withHeader } from "./draft.ts";

/** Key, time and id with which a delivery is signed. */
type Signing = {
  readonly key: NamedKey;
  readonly at: Date;
  readonly id: string;
  /** URL of the endpoint as the operator has entered it at the sender. */
  readonly publicUrl: string;
  /** Host to which the delivery is sent. */
  readonly host: string;
};

const LABEL = "sig1";

/** Signs a delivery with an HTTP Message Signature over all components that its endpoint requires. */
export function signHttp(draft: Draft, settings: HttpSignature, signing: Signing): Draft {
  const { algorithm, tag } = settings;
  const { key, kid, thumbprint } = signing.key;
  const keyid = kid ?? thumbprint;
  const covered = withCovered(draft, settings, signing);
  const components = componentsOf(settings).map((value) => ({ value, parameters: new Map() }));
  const parameters = new Map<string, BareItem>([["created", Math.floor(signing.at.getTime() / 1000)]]);
  if (keyid !== undefined) parameters.set("keyid", keyid);
  parameters.set("alg", algorithm);
  if (tag !== undefined) parameters.set("tag", tag);
  const base = new SignedRequest(requestOf(covered, signing.host), signing.publicUrl).base(
    components,
    parameters,
  );
  const signature = serializeBareItem(sign(HTTP_ALGORITHMS[algorithm], key, base));
  const described = withHeader(
    covered,
    ["Signature-Input"],
    `${LABEL}=${serializeList(components, parameters)}`,
  );
  return withHeader(described, ["Signature"], `${LABEL}=${signature}`);
}

/** Adds the digest of the body. Also adds each header that must be signed and that the delivery lacks. */
function withCovered(draft: Draft, settings: HttpSignature, { at, id, host }: Signing): Draft {
  const digested = withHeader(draft, ["Content-Digest"], contentDigest(sha256Hex(draft.body)));
  const names = new Set(
    requestOf(digested, host)
      .rawHeaders.filter((_, index) => index % 2 === 0)
      .map((name) => name.toLowerCase()),
  );
  const missing = componentsOf(settings).filter((name) => isHeaderComponent(name) && !names.has(name));
  return missing.reduce(
    (next, name) => withHeader(next, [name], name === "date" ? at.toUTCString() : id),
    digested,
  );
}

/** Returns the request that will be sent, with the Host and Content-Length that Node adds when sending. */
function requestOf({ method, target, headers, body }: Draft, host: string): IncomingMessage {
  const rawHeaders = ["Host", host, "Content-Length", String(body.length), ...headers.flat()];
  return { method, url: target, rawHeaders, headers: {} } as unknown as IncomingMessage;
}
