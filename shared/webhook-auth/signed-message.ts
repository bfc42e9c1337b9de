import { isUtf8 } from "node:buffer";
import type { KeyObject } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { headerBytes, rawQuery } from "../http/headers.ts";
import { type Ends, endsOf, isEnded, isToken } from "./boundary.ts";
import { need, rejected, wellFormed } from "./rejected.ts";
import { oneItem, type Sent } from "./sent-signature.ts";
import type { Scheme } from "./signature-scheme.ts";
import { type Part, type RequestValues, toParts } from "./template.ts";
import { isStreamable } from "./verifier.ts";

/** Values in the signed bytes that are known before the body arrives. */
export type Head = {
  readonly req: IncomingMessage;
  readonly values: RequestValues;
  /** Undefined while the signature is in a body that has not arrived yet. */
  readonly sent: Sent | undefined;
  /**
   * Time of the signature, as sent. Undefined if the scheme has none, or if it is in a body that has not arrived yet.
   */
  readonly time: string | undefined;
  /** Whether the signed URL contains the body's hash. If it does, {form} is empty. */
  readonly hasBodySha256: boolean;
};

/**
 * Name of the first field in all forms of Twilio. In the signed bytes, the form follows directly after the URL, and
 * this name marks where it starts. The mark is unambiguous: two occurrences of the name cannot overlap, because it
 * begins and ends differently.
 */
const FORM_BEGINS_WITH = "AccountSid";

/** Values in the signed bytes. `form` is the text of {form}, once the body has arrived. */
type HeadAndForm = Head & { readonly form?: string };

/** Parts that need the body. */
const NEEDS_BODY: readonly Part["kind"][] = ["body", "field", "form"];
const NOTHING = Buffer.alloc(0);
const NO_URL: readonly string[] = [""];

type Piece = { readonly part: Part; readonly ends: Ends };

/**
 * Returns whether an attacker who knows one signature can append bytes to the body and compute the new signature
 * without the secret. A plain SHA-256 allows this (length extension), unless the secret comes after the body. The
 * appended bytes begin with the padding byte 0x80. So an extended body is not UTF-8, and `checkBounds` refuses it.
 */
export function isExtendable({ algorithm, signed = "{body}" }: Scheme): boolean {
  const kinds = toParts(signed).map(({ kind }) => kind);
  return algorithm === "sha256" && kinds.lastIndexOf("secret") < kinds.indexOf("body");
}

/** Builds the bytes that a sender signs, by the template `signed` of a scheme. */
export class Message {
  /**
   * Whether the message consists of the body, and bytes before and after it that are known from the headers. Its digest
   * can then be computed while the body arrives.
   */
  readonly isStreamed: boolean;
  /** Name of the query parameter in which the sender may send the body's hash. Undefined for all senders but Twilio. */
  readonly sha256Query: string | undefined;
  readonly #pieces: readonly Piece[];
  /** Pieces before and after the body. */
  readonly #before: readonly Piece[];
  readonly #after: readonly Piece[];
  readonly #urls: readonly string[];
  /**
   * Whether the body must begin with a character that no id or type contains. It must if the value signed before the
   * body is such an id or type, so that it is unambiguous where the body starts.
   */
  readonly #needsBodyMark: boolean;
  readonly #signsForm: boolean;
  readonly #isExtendable: boolean;
  readonly #formBeginsWith: string | undefined;

  constructor(scheme: Scheme, publicUrl = "") {
    const parts = toParts(scheme.signed ?? "{body}");
    this.#pieces = parts.map((part, at) => ({ part, ends: endsOf(parts, at) }));
    this.#isExtendable = isExtendable(scheme);
    const bodyAt = parts.findIndex(({ kind }) => kind === "body");
    this.#before = this.#pieces.slice(0, Math.max(0, bodyAt));
    this.#after = this.#pieces.slice(bodyAt + 1);
    this.#needsBodyMark = this.#pieces.some(({ ends }) => ends === "after-token");
    this.isStreamed =
      isStreamable(scheme.algorithm) &&
      !this.#isExtendable &&
      bodyAt !== -1 &&
      parts.every(({ kind }, at) => at === bodyAt || !NEEDS_BODY.includes(kind));
    this.#signsForm = parts.some(({ kind }) => kind === "form");
    this.sha256Query = scheme.twilio === true ? "bodySHA256" : undefined;
    this.#formBeginsWith = scheme.twilio === true ? FORM_BEGINS_WITH : undefined;
    const signsUrl = parts.some(({ kind }) => kind === "url");
    this.#urls = signsUrl ? urlForms(publicUrl, scheme.twilio === true) : NO_URL;
  }

  /**
   * Returns the URLs that the sender may have signed, or one empty text if the sender signs no URL. They are made from
   * the configured URL, never from the header Host, which any client can choose. Throws `webhook.credential_rejected`.
   */
  urls(head: Head): readonly string[] {
    if (this.#adds(head)) this.#checkAdded(head);
    if (this.#urls === NO_URL) return NO_URL;
    const query = rawQuery(head.req.url ?? "");
    return this.#urls.map((url) => (query === rawQuery(url) ? url : `${url.split("?")[0]}?${query}`));
  }

  /** Returns whether the request's query differs from that of the URL configured at the sender. */
  #adds({ req }: Head): boolean {
    if (this.#urls === NO_URL) return false;
    return rawQuery(req.url ?? "") !== rawQuery(this.#urls[0] ?? "");
  }

  /**
   * Checks a query that differs from the configured one. The sender may only append to the configured query, and only
   * if {form} is empty or begins with a known field. The query must not contain the name of that field, which marks
   * where the form begins.
   */
  #checkAdded({ req, hasBodySha256 }: Head): void {
    const name = this.#formBeginsWith;
    const given = rawQuery(this.#urls[0] ?? "");
    const query = rawQuery(req.url ?? "");
    const goesOn = given === "" || query.startsWith(`${given}&`);
    if (!goesOn || (name === undefined && !hasBodySha256))
      throw rejected("mismatch", "the query differs from that of public_url");
    if (name !== undefined && query.includes(name)) throw rejected("mismatch", `the query contains ${name}`);
  }

  before(head: Head, url: string, key: KeyObject): Buffer {
    return bytesOfAll(this.#before, head, url, key, head.values);
  }

  after(head: Head, url: string, key: KeyObject): Buffer {
    return bytesOfAll(this.#after, head, url, key, head.values);
  }

  /**
   * Returns the messages that the sender may have signed: one, or two for a form that can be sorted in two ways.
   * `values` must include the body.
   */
  wholes(head: Head, url: string, key: KeyObject, values: RequestValues): readonly Buffer[] {
    const forms =
      this.#signsForm && !head.hasBodySha256 ? wellFormed(values.form(), tooManyFields).texts : [""];
    return forms.map((form) => bytesOfAll(this.#pieces, { ...head, form }, url, key, values));
  }

  /**
   * Throws `webhook.credential_rejected` if an attacker could have appended bytes to the body, or moved bytes between
   * the body and the signed values next to it.
   */
  checkBounds(head: Head, values: RequestValues, firstByte: number | undefined): void {
    if (this.#isExtendable && !isUtf8(values.body)) throw rejected("malformed", "the body must be UTF-8");
    if (this.#needsBodyMark && firstByte !== undefined && isToken(String.fromCharCode(firstByte)))
      throw rejected("malformed", "the body starts like the value that is signed before it");
    if (this.#signsForm && !head.hasBodySha256) this.#checkForm(head, values);
  }

  /**
   * Throws `webhook.credential_rejected` if an attacker could have moved bytes between the URL and the form, which is
   * signed directly after it.
   */
  #checkForm(head: Head, values: RequestValues): void {
    const { first, texts } = wellFormed(values.form(), tooManyFields);
    const name = this.#formBeginsWith;
    if (this.#adds(head)) {
      if (first !== name)
        throw rejected("mismatch", `after a longer query, the form must start with ${name}`);
    } else if (texts.some((text) => /^[?&]/.test(text)))
      throw rejected("mismatch", "the form starts like a query");
  }
}

function bytesOfAll(
  pieces: readonly Piece[],
  head: HeadAndForm,
  url: string,
  key: KeyObject,
  values: RequestValues,
): Buffer {
  if (pieces.length === 0) return NOTHING;
  return Buffer.concat(
    pieces.map(({ part, ends }) => {
      const bytes = bytesOf(part, head, url, key, values);
      if (part.kind !== "named-headers" && !isEnded(bytes, ends))
        throw rejected("malformed", `the end of {${part.kind}} is ambiguous in the signed text`);
      return bytes;
    }),
  );
}

function bytesOf(part: Part, head: HeadAndForm, url: string, key: KeyObject, values: RequestValues): Buffer {
  const { req, sent, time } = head;
  const item = (key: string) => wellFormed(sent?.pair(key), () => oneItem(key));
  switch (part.kind) {
    case "literal":
      return Buffer.from(part.text, "utf8");
    case "body":
      return values.body;
    case "form":
      return Buffer.from(head.form ?? "", "utf8");
    case "field":
      return Buffer.from(need(values.field(part.pointer)), "utf8");
    case "header":
      return headerBytes(need(values.header(part.names)));
    case "query":
      return Buffer.from(need(values.query(part.name)), "utf8");
    case "pair":
      return headerBytes(item(part.key));
    case "named-headers":
      return headerBytes(namedHeaders(item(part.key), values));
    case "timestamp":
      return headerBytes(wellFormed(time, () => "the time is missing"));
    case "method":
      return Buffer.from(req.method ?? "", "latin1");
    case "url":
      return Buffer.from(url, "utf8");
    case "secret":
      return key.export();
    case "cloudevent":
      throw new TypeError("the schema of a signed text allows no {cloudevent:…}");
  }
}

const tooManyFields = () => "the form has too many fields";

/** Limit on named headers. Senders name two or three. */
const NAMED_HEADERS_MAX = 32;

/**
 * Joins the values of the named headers with dots, as Hook0 signs them. To make the end of each value unambiguous, only
 * the last value may contain dots, and it must have the form of an id or event type.
 */
function namedHeaders(names: string, values: RequestValues): string {
  const texts = names.split(" ", NAMED_HEADERS_MAX).map((name) => need(values.header([name])));
  const last = texts.length - 1;
  const areApart = texts.every((text, at) => (at < last ? !text.includes(".") : isToken(text)));
  if (!areApart) throw rejected("malformed", "the end of a signed header is ambiguous in the signed text");
  return texts.join(".");
}

const ORIGIN = /^(https?):\/\/([^/?]+?)(?::(\d+))?(?=[/?]|$)/;

/** Returns the URL. If its port may be omitted or added, returns both forms. */
function urlForms(publicUrl: string, portOptional: boolean): string[] {
  const [origin, scheme, host, port = scheme === "http" ? "80" : "443"] = ORIGIN.exec(publicUrl) ?? [];
  if (!portOptional || origin === undefined) return [publicUrl];
  const rest = publicUrl.slice(origin.length);
  return [`${scheme}://${host}${rest}`, `${scheme}://${host}:${port}${rest}`];
}
