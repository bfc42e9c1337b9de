import type { KeyObject } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { rawQuery } from "../../http/headers.ts";
import type { Secret } from "../../platform/crypto/secret.ts";
import { parseJson } from "../../platform/text/parse-json.ts";
import { type HttpSigned, type Jwt, type Proof, secretText } from "../auth-modes.ts";
import { keysFor } from "../key.ts";
import { HTTP_ALGORITHMS, hasKeyPair } from "../keys/algorithms.ts";
import { type NamedKey, parseKeys } from "../keys/jwk.ts";
import type { Scheme } from "../signature-scheme.ts";
import { needsPrivateKey } from "../signature-scheme.ts";
import { type Draft, withEvent, withHeader, withId } from "./draft.ts";
import { PLAIN_SAMPLE, SAMPLES, type Sample } from "./samples.ts";
import { signDelivery } from "./sign.ts";
import { signHttp } from "./sign-http.ts";
import { signJwt } from "./sign-jwt.ts";

/**
 * A simulated sender, with which an operator tests an endpoint: the endpoint's URL and configuration, and the keys with
 * which the sender signs.
 */
export type Sender = {
  readonly url: URL;
  readonly endpoint: SampledEndpoint;
  readonly secrets: readonly Secret[];
  /**
   * Returns the private key of a sender that signs with a key pair, and the id by which the endpoint's keys name it.
   * Throws if the sender has no such key.
   */
  readonly signingKey: (signed: Scheme | Jwt | HttpSigned) => NamedKey;
};

/** Part of an endpoint's configuration that describes how its sender sends. */
type SampledEndpoint = {
  readonly preset?: string | undefined;
  readonly methods: readonly string[];
  readonly proof: Proof;
  readonly public_url?: string | undefined;
  readonly delivery_id?: string | undefined;
  readonly event_type?: string | undefined;
  readonly when?: string | undefined;
  readonly route_by?:
    | { readonly header?: string | undefined; readonly field?: string | undefined }
    | undefined;
};

/** Values of a test delivery that an operator has chosen, and that replace those of the sample. */
export type Replaced = {
  readonly event?: string | undefined;
  readonly body?: Buffer | undefined;
  readonly headers?: readonly (readonly [name: string, value: string])[] | undefined;
  /** Delivery id. If it is undefined, a replaced body keeps the id that it contains, and the sample gets a new id. */
  readonly deliveryId?: string | undefined;
};

/**
 * Makes a sample delivery as the sender would send it at this time. Throws an error that names what is missing, such as
 * the secret.
 */
export function makeDelivery(sender: Sender, newId: string, at: Date, replaced: Replaced = {}): Draft {
  const id = replaced.deliveryId ?? newId;
  const own = replaced.headers ?? [];
  const draft = withOwn(draftOf(sender, id, replaced), own);
  return withOwn(withCredential(draft, sender, at, id), own);
}

/**
 * Returns whether the sample delivery of this sender's preset is about another event than `event`, so that its body
 * does not fit. The sample for endpoints without a preset fits any event.
 */
export function isOfAnotherEvent(sender: Sender, event: string): boolean {
  if (SAMPLES[sender.endpoint.preset ?? ""] === undefined) return false;
  return !isDeepStrictEqual(draftOf(sender, "", {}), draftOf(sender, "", { event }));
}

function withOwn(draft: Draft, headers: readonly (readonly [string, string])[]): Draft {
  return headers.reduce((next, [name, value]) => withHeader(next, [name], value), draft);
}

function draftOf({ url, endpoint }: Sender, id: string, replaced: Replaced): Draft {
  const { delivery_id = "", public_url = "" } = endpoint;
  const sample: Sample = SAMPLES[endpoint.preset ?? ""] ?? PLAIN_SAMPLE;
  const body = replaced.body ?? bytesOf(sample);
  const query = url.search || (rawQuery(public_url) && `?${rawQuery(public_url)}`);
  let draft: Draft = {
    method: endpoint.methods[0] ?? "POST",
    target: `${url.pathname}${query}`,
    headers: [["Content-Type", typeOf(body, sample)], ...Object.entries(sample.headers ?? {})],
    body,
  };
  const event = replaced.event ?? sample.event;
  const eventType = eventTemplate(endpoint);
  if (replaced.event !== undefined && eventType === "")
    throw new Error("the sender of this endpoint sends no event type, so none can be chosen");
  if (event !== undefined) draft = withEvent(draft, eventType, event);
  const identified = withId(draft, delivery_id, eventType, id);
  const keepsId =
    replaced.body !== undefined && replaced.deliveryId === undefined && identified.body !== draft.body;
  return keepsId ? draft : identified;
}

function eventTemplate({ event_type, route_by }: SampledEndpoint): string {
  if (event_type !== undefined) return event_type;
  if (route_by?.header !== undefined) return `{header:${route_by.header}}`;
  return route_by?.field === undefined ? "" : `{body:${route_by.field}}`;
}

function bytesOf({ body }: Sample): Buffer {
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}

/**
 * Returns the content type of a body. If it is JSON, the type is that of JSON. Otherwise it is that of a form if this
 * sender sends forms, and that of plain text if not.
 */
function typeOf(body: Buffer, sample: Sample): string {
  const text = body.toString("utf8");
  if (parseJson(text) !== undefined && Buffer.from(text).equals(body)) return "application/json";
  return typeof sample.body === "string" ? "application/x-www-form-urlencoded" : "text/plain";
}

type AddProof<By extends Proof["by"]> = (
  draft: Draft,
  proof: Extract<Proof, { by: By }>,
  delivery: { sender: Sender; at: Date; id: string },
) => Draft;

/** Functions that add each kind of proof to a delivery. */
const SIGNERS: { readonly [By in Proof["by"]]: AddProof<By> } = {
  nothing: (draft) => draft,
  secret: (draft, proof, { sender: { secrets } }) =>
    withHeader(draft, [proof.header], secretText(proof, secrets[0]?.reveal() ?? "")),
  schemes(draft, { schemes }, { sender, at, id }) {
    const { scheme, key } = chooseKey(schemes, sender);
    return signDelivery(draft, { scheme, key, at, id, publicUrl: sender.endpoint.public_url });
  },
  jwt: (draft, proof, { sender, at }) =>
    withHeader(draft, ["Authorization"], `Bearer ${signJwt(proof, sender.signingKey(proof), at)}`),
  "http-signature"(draft, proof, { sender, at, id }) {
    const key = chooseHttpKey(proof, sender);
    const { public_url: publicUrl = "" } = sender.endpoint;
    return signHttp(draft, proof.signature, { key, at, id, publicUrl, host: sender.url.host });
  },
  "aws-sns": () => {
    throw new Error("only Amazon SNS can sign its messages: publish one to the topic instead");
  },
  paypal: () => {
    throw new Error("only PayPal can sign its deliveries: cause an event in its sandbox instead");
  },
};

/** Adds the credential that the endpoint requires. */
function withCredential(draft: Draft, sender: Sender, at: Date, id: string): Draft {
  const { proof } = sender.endpoint;
  return (SIGNERS[proof.by] as AddProof<Proof["by"]>)(draft, proof, { sender, at, id });
}

function chooseHttpKey(proof: HttpSigned, { secrets, signingKey }: Sender): NamedKey {
  const { algorithm } = proof.signature;
  if (hasKeyPair(HTTP_ALGORITHMS[algorithm])) return signingKey(proof);
  const [key] = secrets.flatMap((secret) => parseKeys(secret.reveal(), algorithm));
  if (key === undefined) throw new Error("the endpoint has no secret: set one in webhooks.toml");
  return key;
}

/**
 * Returns the first scheme for which there is a key, and that key. Otherwise throws an error that says what is missing.
 */
function chooseKey(
  schemes: readonly Scheme[],
  { secrets, signingKey }: Sender,
): { scheme: Scheme; key: KeyObject } {
  const keys = keysFor(schemes, secrets);
  const at = schemes.findIndex((_, index) => (keys[index] ?? []).length > 0);
  const scheme = schemes[at];
  const [key] = keys[at] ?? [];
  if (scheme === undefined || key === undefined)
    throw new Error("the endpoint has no secret: set one in webhooks.toml");
  return needsPrivateKey(scheme.algorithm) ? { scheme, key: signingKey(scheme).key } : { scheme, key };
}
