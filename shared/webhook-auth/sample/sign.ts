import { type KeyObject, sign as signWith } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { sha256Hex } from "../../platform/crypto/compare.ts";
import { encodeAs } from "../sent-signature.ts";
import type { Scheme, Timestamp, TimeUnit } from "../signature-scheme.ts";
import { Message } from "../signed-message.ts";
import { fill, RequestValues, toParts, toPointer } from "../template.ts";
import { macOf } from "../verifier.ts";
import { type Draft, placesIn, withField, withHeader, withQuery, withValue } from "./draft.ts";

/** Scheme, key, time and id with which a delivery is signed. */
export type Signing = {
  readonly scheme: Scheme;
  /** Private key, if the algorithm uses key pairs. */
  readonly key: KeyObject;
  readonly at: Date;
  readonly id: string;
  /** URL of the endpoint as the operator has entered it at the sender. */
  readonly publicUrl: string | undefined;
};

/**
 * Signs a delivery as its sender would, by the same scheme by which the gateway verifies it. Before signing, it adds
 * values that the signature covers and the delivery lacks, such as the time.
 */
export function signDelivery(draft: Draft, signing: Signing): Draft {
  const { scheme, key, at, publicUrl } = signing;
  const message = new Message(scheme, publicUrl);
  const time = scheme.timestamp && TIMES[scheme.timestamp.unit](at);
  const covered = withCovered(draft, signing, time);
  const bodySha256 = bodySha256Pair(covered, message);
  const asked = bodySha256 === undefined ? covered : withQuery(covered, ...bodySha256);
  const pairs = pairsOf(asked, scheme, time);

  const req = requestOf(asked);
  const values = new RequestValues(req, asked.body);
  const sent = { candidates: [], pair: (name: string) => pairs.get(name) };
  const head = { req, values, sent, time, hasBodySha256: bodySha256 !== undefined };
  message.checkBounds(head, values, asked.body[0]);
  const [url = ""] = message.urls(head);
  const [whole = asked.body] = message.wholes(head, url, key, values);
  const signature = signatureOf(scheme, key, whole);
  return withSignature(asked, scheme, pairs, signature);
}

/** Adds the time, the required headers, and values for all signed headers and fields that the delivery lacks. */
function withCovered(draft: Draft, { scheme, id }: Signing, time: string | undefined): Draft {
  let next = draft;
  for (const [name, value] of Object.entries(scheme.require ?? {})) next = withHeader(next, [name], value);
  if (scheme.timestamp !== undefined && time !== undefined) next = withTime(next, scheme.timestamp, time);
  for (const place of placesIn(scheme.signed ?? "")) {
    const found = fill(toParts(place), new RequestValues(requestOf(next), next.body));
    if ("problem" in found) next = withValue(next, place, id);
  }
  return next;
}

function withTime(draft: Draft, { header, field, unit }: Timestamp, time: string): Draft {
  if (header !== undefined) return withHeader(draft, [header], time);
  if (field === undefined) return draft;
  return withField(draft, toPointer(field), unit === "ms" ? Number(time) : time);
}

function requestOf({ method, target, headers }: Draft): IncomingMessage {
  return { method, url: target, rawHeaders: headers.flat(), headers: {} } as unknown as IncomingMessage;
}

const TIMES: Readonly<Record<TimeUnit, (at: Date) => string>> = {
  s: (at) => String(Math.floor(at.getTime() / 1000)),
  ms: (at) => String(at.getTime()),
  rfc3339: (at) => at.toISOString(),
  go: (at) => at.toISOString().replace("T", " ").replace("Z", " +0000 UTC"),
};

/**
 * Returns the query parameter with the body's hash that Twilio adds to the URL. A form gets no such parameter, because the
 * form's fields are signed themselves.
 */
function bodySha256Pair(draft: Draft, { sha256Query: name }: Message): [string, string] | undefined {
  const isForm = draft.headers.some(([, value]) => value.startsWith("application/x-www-form-urlencoded"));
  return name === undefined || isForm ? undefined : [name, sha256Hex(draft.body)];
}

const NEVER_NAMED = ["content-type", "user-agent"];

/**
 * Returns the items besides the signature in a signature header that is a list, such as `t=1,h=a b,v1=ab`. They are the
 * time and the names of the signed headers.
 */
function pairsOf(draft: Draft, { signed = "", timestamp }: Scheme, time: string | undefined) {
  const pairs = new Map<string, string>();
  if (timestamp?.pair !== undefined && time !== undefined) pairs.set(timestamp.pair, time);
  const names = draft.headers
    .map(([name]) => name.toLowerCase())
    .filter((name) => !NEVER_NAMED.includes(name))
    .sort();
  for (const part of toParts(signed)) {
    if (part.kind === "named-headers") pairs.set(part.key, names.join(" "));
  }
  return pairs;
}

function signatureOf({ algorithm }: Scheme, key: KeyObject, message: Buffer): Buffer {
  switch (algorithm) {
    case "ed25519":
      return signWith(null, message, key);
    case "ecdsa-p256":
      return signWith("sha256", message, key);
    case "equal":
      return key.export();
    default:
      return macOf(algorithm, key, message);
  }
}

function withSignature(
  draft: Draft,
  scheme: Scheme,
  pairs: ReadonlyMap<string, string>,
  bytes: Buffer,
): Draft {
  const { header, query, field, prefix = "", list, encoding, algorithm } = scheme;
  const asText = algorithm === "equal" ? bytes.toString(header === undefined ? "utf8" : "latin1") : "";
  const text = algorithm === "equal" ? asText : encodeAs(bytes, encoding);
  const signature = list?.key === undefined ? [text] : [list.key, text];
  const items =
    list &&
    [...pairs, signature].map(([name = "", ...rest]) =>
      (name === list.first ? rest : [name, ...rest]).join(list.assign ?? "="),
    );
  const value = items === undefined ? prefix + text : items.join(list?.separator);
  if (query !== undefined) return withQuery(draft, query, value);
  if (field !== undefined) return withField(draft, toPointer(field), value);
  return withHeader(draft, [header ?? []].flat(), value);
}
