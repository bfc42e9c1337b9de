import { type KeyObject, randomUUID } from "node:crypto";
import type { EndpointToml } from "../../../shared/config/endpoint-toml.ts";
import { rawQuery } from "../../../shared/http/headers.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { type Proof, secretText } from "../../../shared/senders/auth.ts";
import { keysFor } from "../../../shared/senders/key.ts";
import { needsPrivateKey, parsePrivateKey, publicHalf } from "../../../shared/senders/private-key.ts";
import type { Scheme } from "../../../shared/senders/scheme.ts";
import { bodyIn, bodyOf, isJson } from "../body.ts";
import { type Draft, withEvent, withHeader, withId } from "./draft.ts";
import { PLAIN_SAMPLE, SAMPLES, type Sample } from "./samples.ts";
import { signDelivery } from "./sign.ts";
import type { SendOptions, Target } from "./target.ts";

/** The delivery as the endpoint's sender would make it now, with a new id. */
export function makeDelivery(target: Target, options: SendOptions, at: Date): Draft {
  const id = options.deliveryId ?? randomUUID();
  const own = options.header ?? [];
  const draft = withOwn(draftOf(target, options, id), own);
  return withOwn(withCredential(draft, target, at, id), own);
}

function withOwn(draft: Draft, headers: readonly (readonly [string, string])[]): Draft {
  return headers.reduce((next, [name, value]) => withHeader(next, [name], value), draft);
}

function draftOf({ url, endpoint }: Target, options: SendOptions, id: string): Draft {
  const { delivery_id = "", public_url = "" } = endpoint;
  const sample: Sample = SAMPLES[endpoint.preset ?? ""] ?? PLAIN_SAMPLE;
  const body = options.body === undefined ? bytesOf(sample) : readBody(options.body);
  const query = url.search || (rawQuery(public_url) && `?${rawQuery(public_url)}`);
  let draft: Draft = {
    method: endpoint.methods[0] ?? "POST",
    target: `${url.pathname}${query}`,
    headers: [["Content-Type", typeOf(body, sample)], ...Object.entries(sample.headers ?? {})],
    body,
  };
  const event = options.event ?? sample.event;
  const eventType = eventTemplate(endpoint);
  if (options.event !== undefined && eventType === "")
    throw new Error("--event cannot be used: the sender of this endpoint sends no event type");
  if (event !== undefined) draft = withEvent(draft, eventType, event);
  const identified = withId(draft, delivery_id, eventType, id);
  // A body of somebody's own keeps its id, unless another is asked for.
  const keepsId =
    options.body !== undefined && options.deliveryId === undefined && identified.body !== draft.body;
  return keepsId ? draft : identified;
}

function eventTemplate({ event_type, route_by }: EndpointToml): string {
  if (event_type !== undefined) return event_type;
  if (route_by?.header !== undefined) return `{header:${route_by.header}}`;
  return route_by?.field === undefined ? "" : `{body:${route_by.field}}`;
}

function bytesOf({ body }: Sample): Buffer {
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}

const STDIN = 0;

function readBody(text: string): Buffer {
  if (!text.startsWith("@")) return bodyOf(text);
  return bodyIn(text === "@-" ? STDIN : text.slice(1));
}

/** JSON if it is that; else a form if this sender sends forms. */
function typeOf(body: Buffer, sample: Sample): string {
  if (isJson(body)) return "application/json";
  return typeof sample.body === "string" ? "application/x-www-form-urlencoded" : "text/plain";
}

type Sign<By extends Proof["by"]> = (
  draft: Draft,
  proof: Extract<Proof, { by: By }>,
  delivery: { target: Target; at: Date; id: string },
) => Draft;

/** How a delivery gets each kind of proof. */
const SIGNERS: { readonly [By in Proof["by"]]: Sign<By> } = {
  nothing: (draft) => draft,
  secret: (draft, proof, { target: { secrets } }) =>
    withHeader(draft, [proof.header], secretText(proof, secrets[0]?.reveal() ?? "")),
  schemes(draft, { schemes }, { target, at, id }) {
    const { scheme, key } = chooseKey(schemes, target);
    return signDelivery(draft, { scheme, key, at, id, publicUrl: target.endpoint.public_url });
  },
};

function withCredential(draft: Draft, target: Target, at: Date, id: string): Draft {
  const { proof } = target.endpoint;
  return (SIGNERS[proof.by] as Sign<Proof["by"]>)(draft, proof, { target, at, id });
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
