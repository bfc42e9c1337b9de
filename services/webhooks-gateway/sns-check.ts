import { verify } from "node:crypto";
import { AppError, messageOf } from "../../shared/platform/errors/app-error.ts";
import { BoundedMap } from "../../shared/platform/lifecycle/bounded-map.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { endOfString, parseBoundedJson } from "../../shared/platform/text/bounded-json.ts";
import { decodeStrictly } from "../../shared/platform/text/strict-base64.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import type { SnsMessage } from "../../shared/webhook-auth/auth-modes.ts";
import { need, rejected, wellFormed } from "../../shared/webhook-auth/rejected.ts";
import { RequestValues } from "../../shared/webhook-auth/template.ts";
import type { Check, CheckDeps } from "./check.ts";
import type { FetchRest } from "./signature-check.ts";
import { checkTime } from "./signature-timestamp.ts";
import { isUrlBelow, keyOf, readCertificate } from "./signing-certificate.ts";

/*
 * Messages of Amazon SNS. The gateway fetches the certificate of a signature, and the URL that confirms a subscription.
 * It fetches them only from the SNS host in the region of a configured topic.
 */

const CERTIFICATE_NAME = /^[0-9A-Za-z]{1,64}\.pem$/;

/** Hash algorithms by signature version. */
const HASHES: Readonly<Record<string, string>> = { "1": "sha1", "2": "sha256" };

/**
 * Allowed members of a message. A message with any other is refused, because the signature does not cover it and a
 * stranger could have added it. The runner's JSON parser may ignore case. For it, an added `message` would replace the
 * signed `Message`.
 */
const MEMBERS: ReadonlySet<string> = new Set([
  ...["Type", "MessageId", "Token", "TopicArn", "Subject", "Message", "SubscribeURL", "UnsubscribeURL"],
  ...["Timestamp", "SignatureVersion", "Signature", "SigningCertURL", "MessageAttributes"],
]);

const CONFIRMATION = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"];

/** Signed members of a message, by its type. */
const SIGNED: Readonly<Record<string, readonly string[]>> = {
  Notification: ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"],
  SubscriptionConfirmation: CONFIRMATION,
  UnsubscribeConfirmation: CONFIRMATION,
};

/** Checks the messages of an endpoint's topics. Throws `webhook.credential_rejected` and `webhook.keys_unavailable`. */
export function createSnsCheck(
  { topics, timestamp }: SnsMessage,
  { path }: { readonly path: string },
  { clock, documents, rootCertificates: roots }: CheckDeps,
): Check {
  const namesOf = new Map(topics.map(snsOf).map(({ host, names }) => [host, names]));
  const certificates = documents.open(path, (pem, url) => {
    const names = namesOf.get(new URL(url).host) ?? [];
    // AWS publishes the certificate without those of its issuers, so a chain cannot be required.
    return readCertificate(pem, { names, roots, isLeafEnough: true, now: clock() });
  });

  /**
   * Checks everything that needs no certificate. Returns the function that fetches the certificate and then checks the
   * signature.
   */
  function check({ body }: RequestValues, address: string): FetchRest {
    const message = readMessage(body);
    const topic = textOf(message, "TopicArn");
    if (!topics.includes(topic)) throw rejected("mismatch", "TopicArn is not one of topics");
    const { host } = snsOf(topic);
    const url = textOf(message, "SigningCertURL");
    if (!isUrlBelow(`https://${host}/SimpleNotificationService-`, CERTIFICATE_NAME, url))
      throw rejected("mismatch", `SigningCertURL must be that of a certificate at ${host}`);
    const hash = HASHES[textOf(message, "SignatureVersion")];
    if (hash === undefined) throw rejected("malformed", "SignatureVersion must be 1 or 2");
    checkTime(textOf(message, "Timestamp"), timestamp, clock());
    const signature = wellFormed(
      decodeStrictly(textOf(message, "Signature"), "base64"),
      () => "Signature must be base64",
    );
    const signed = Buffer.from(signedText(message));
    return async () => {
      const certificate = await certificates.get(url, address);
      return () => {
        if (!verify(hash, signed, keyOf(certificate, clock()), signature)) throw rejected("mismatch");
        certificates.markProven(url);
      };
    };
  }

  return (req, address) => {
    const raw = new RequestValues(req).header(["x-amz-sns-rawdelivery"]);
    if ("value" in raw && raw.value !== "false")
      throw rejected(
        "malformed",
        "raw message delivery has no signature: disable it for this subscription at Amazon SNS",
      );
    return { take() {}, checkTaken: undefined, check: (values) => check(values, address) };
  };
}

type Message = Readonly<Record<string, unknown>>;

/**
 * Parses a message, and refuses unknown or repeated members. With them, the runner might read a value that the
 * signature does not cover.
 */
function readMessage(body: Buffer): Message {
  const parsed = parseBoundedJson(body);
  if (!parsed.ok) throw rejected("malformed", `the body ${parsed.problem}`);
  const { value } = parsed;
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw rejected("malformed", "the body must be a JSON object");
  const names = Object.keys(value);
  if (!names.every((name) => MEMBERS.has(name)))
    throw rejected("malformed", "the body has a member that Amazon SNS does not send");
  if (names.length !== memberCount(body)) throw rejected("malformed", "the body has two members of one name");
  return value as Message;
}

/** Counts the members of a JSON object, including repeated ones. */
function memberCount(json: Buffer): number {
  let depth = 0;
  let count = 0;
  for (let at = 0; at < json.length; at++) {
    switch (String.fromCharCode(json[at] ?? 0)) {
      case '"':
        at = endOfString(json, at);
        break;
      case "{":
      case "[":
        depth += 1;
        break;
      case "}":
      case "]":
        depth -= 1;
        break;
      case ":":
        if (depth === 1) count += 1;
    }
  }
  return count;
}

/**
 * Returns a member that must be text. Only `Message` may have several lines. The signed text has a line for each name
 * and value, so a line break in any other value could forge a member.
 */
function textOf(message: Message, name: string): string {
  const value = Object.hasOwn(message, name) ? message[name] : undefined;
  if (typeof value !== "string" || (name !== "Message" && value.includes("\n")))
    throw rejected("malformed", `the body must have ${name}, as text of one line`);
  return value;
}

function signedText(message: Message): string {
  const type = textOf(message, "Type");
  const names = Object.hasOwn(SIGNED, type) ? SIGNED[type] : undefined;
  if (names === undefined) throw rejected("malformed", "Type must be a message type of Amazon SNS");
  return names
    .filter((name) => name !== "Subject" || Object.hasOwn(message, name))
    .map((name) => `${name}\n${textOf(message, name)}\n`)
    .join("");
}

/** Returns the SNS host in a topic's region, and the names that its certificates may have. */
function snsOf(topicArn: string): { host: string; names: readonly string[] } {
  const [, partition, , region] = topicArn.split(":");
  const host = `sns.${region}.amazonaws.com`;
  switch (partition) {
    case "aws-cn":
      return { host: `${host}.cn`, names: [`sns-${region}.amazonaws.com.cn`] };
    case "aws-us-gov":
      return { host, names: ["sns-us-gov-west-1.amazonaws.com"] };
    default:
      return { host, names: ["sns.amazonaws.com", `sns-signing.${region}.amazonaws.com`] };
  }
}

/** Limit on confirmations that a process remembers. */
const CONFIRMATIONS_MAX = 64;
/**
 * Time in ms after which a failed confirmation may be tried again. It is shorter than the 20 s after which SNS sends
 * the message again.
 */
const CONFIRM_EVERY_MS = 10_000;

type Confirmation = {
  readonly done: Promise<void>;
  /** Earliest time at which the URL may be fetched again. Infinity once a fetch has succeeded. */
  nextAt: number;
};

/**
 * Creates the function that confirms the subscription that a verified message asks for, by fetching the message's URL.
 * Once a fetch has succeeded, the URL is not fetched again. Messages of other types are ignored. Throws
 * `webhook.handshake_refused` and `webhook.confirmation_failed`.
 */
export function createSnsConfirmation(
  { path }: { readonly path: string },
  { clock, getText, log }: { clock: Clock; getText: (url: string) => Promise<string>; log: Logger },
) {
  const known = new BoundedMap<string, Confirmation>(CONFIRMATIONS_MAX);

  async function fetchUrl(url: string, topic: string): Promise<void> {
    try {
      await getText(url);
    } catch (error) {
      const reason = messageOf(error);
      const retryAfterMs = CONFIRM_EVERY_MS;
      throw new AppError("webhook.confirmation_failed", { reason, retryAfterMs, cause: error });
    }
    log.info("webhook.subscription_confirmed", { path, topic });
  }

  return async (values: RequestValues): Promise<void> => {
    const text = (name: string) => need(values.field([name]));
    if (text("Type") !== "SubscriptionConfirmation") return;
    const url = text("SubscribeURL");
    const topic = text("TopicArn");
    if (!confirms(url, topic, text("Token")))
      throw AppError.public(
        "webhook.handshake_refused",
        "SubscribeURL does not confirm the topic at its SNS",
      );
    let confirmation = known.get(url);
    if (confirmation === undefined || clock() >= confirmation.nextAt) {
      confirmation = { done: fetchUrl(url, topic), nextAt: clock() + CONFIRM_EVERY_MS };
      known.set(url, confirmation);
    }
    await confirmation.done;
    confirmation.nextAt = Number.POSITIVE_INFINITY;
  };
}

/**
 * Returns whether a URL does nothing but confirm a subscription to this topic, at the SNS host in the topic's region.
 */
function confirms(url: string, topic: string, token: string): boolean {
  const start = `https://${snsOf(topic).host}/?`;
  if (!url.startsWith(start) || !/^[!-~]+$/.test(url) || url.includes("#")) return false;
  const wanted = { Action: "ConfirmSubscription", TopicArn: topic, Token: token };
  const query = new URLSearchParams(url.slice(start.length));
  return Object.entries(wanted).every(([name, value]) => query.getAll(name).join() === value);
}
