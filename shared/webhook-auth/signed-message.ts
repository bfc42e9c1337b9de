import type { KeyObject } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { headerBytes, rawQuery } from "../http/headers.ts";
import { type Ends, endsOf, isEnded, isToken } from "./boundary.ts";
import { need, rejected, wellFormed } from "./rejected.ts";
import { oneItem, type Sent } from "./sent-signature.ts";
import type { Scheme } from "./signature-scheme.ts";
import { type Part, type RequestValues, toParts } from "./template.ts";
import { isStreamable } from "./verifier.ts";

/** What the signed bytes are made of, once the head of a request is read. */
export type Head = {
  readonly req: IncomingMessage;
  readonly values: RequestValues;
  /** Undefined while the signature is in a body that has yet to arrive. */
  readonly sent: Sent | undefined;
  /** The time as it was sent. */
  readonly time: string | undefined;
  /** Whether the hash of the body stands in the signed URL: then {form} is empty. */
  readonly hasBodySha256: boolean;
};

/** The first field of each form of Twilio's. It does not end as it starts, so it marks the start of the form. */
const FORM_BEGINS_WITH = "AccountSid";

/** With the text of {form}. */
type Told = Head & { readonly form?: string };

/** Parts for which the body must be there. */
const NEEDS_BODY: readonly Part["kind"][] = ["body", "field", "form"];
const NOTHING = Buffer.alloc(0);
const NO_URL: readonly string[] = [""];

type Piece = { readonly part: Part; readonly ends: Ends };

/** The bytes that a sender signs, by the description's `signed`. */
export class Message {
  /** Whether it is the body between bytes that the head tells, so that its digest can be computed while the body arrives. */
  readonly isStreamed: boolean;
  /** The query parameter with the hash of the body, if this sender may send one. */
  readonly sha256Query: string | undefined;
  readonly #pieces: readonly Piece[];
  /** Those before and after the body. */
  readonly #before: readonly Piece[];
  readonly #after: readonly Piece[];
  readonly #urls: readonly string[];
  /** Whether the first byte of the body tells where it begins. */
  readonly #marksBody: boolean;
  readonly #signsForm: boolean;
  readonly #formBeginsWith: string | undefined;

  constructor(scheme: Scheme, publicUrl = "") {
    const parts = toParts(scheme.signed ?? "{body}");
    this.#pieces = parts.map((part, at) => ({ part, ends: endsOf(parts, at) }));
    const bodyAt = parts.findIndex(({ kind }) => kind === "body");
    this.#before = this.#pieces.slice(0, Math.max(0, bodyAt));
    this.#after = this.#pieces.slice(bodyAt + 1);
    this.#marksBody = this.#pieces.some(({ ends }) => ends === "after-token");
    this.isStreamed =
      isStreamable(scheme.algorithm) &&
      bodyAt !== -1 &&
      parts.every(({ kind }, at) => at === bodyAt || !NEEDS_BODY.includes(kind));
    this.#signsForm = parts.some(({ kind }) => kind === "form");
    this.sha256Query = scheme.twilio === true ? "bodySHA256" : undefined;
    this.#formBeginsWith = scheme.twilio === true ? FORM_BEGINS_WITH : undefined;
    const signsUrl = parts.some(({ kind }) => kind === "url");
    this.#urls = signsUrl ? urlForms(publicUrl, scheme.twilio === true) : NO_URL;
  }

  /** The URLs of which one is signed, never made of Host; one empty text if none is. Throws `webhook.credential_rejected`. */
  urls(head: Head): readonly string[] {
    if (this.#adds(head)) this.#checkAdded(head);
    if (this.#urls === NO_URL) return NO_URL;
    const query = rawQuery(head.req.url ?? "");
    return this.#urls.map((url) => (query === rawQuery(url) ? url : `${url.split("?")[0]}?${query}`));
  }

  /** Whether the request's query differs from that of the URL as it is written at the sender. */
  #adds({ req }: Head): boolean {
    if (this.#urls === NO_URL) return false;
    return rawQuery(req.url ?? "") !== rawQuery(this.#urls[0] ?? "");
  }

  /** A longer query must continue the one that the sender was given, and must not hold the name with which the form begins. */
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

  /** One, or two for a form that can be sorted in two ways. `values` are those of the request with its body. */
  wholes(head: Head, url: string, key: KeyObject, values: RequestValues): readonly Buffer[] {
    const forms =
      this.#signsForm && !head.hasBodySha256 ? wellFormed(values.form(), tooManyFields).texts : [""];
    return forms.map((form) => bytesOfAll(this.#pieces, { ...head, form }, url, key, values));
  }

  /** Throws `webhook.credential_rejected` if bytes could have moved between the body and what is signed beside it. */
  checkBounds(head: Head, values: RequestValues, firstByte: number | undefined): void {
    if (this.#marksBody && firstByte !== undefined && isToken(String.fromCharCode(firstByte)))
      throw rejected("malformed", "the body starts like the value that is signed before it");
    if (this.#signsForm && !head.hasBodySha256) this.#checkForm(head, values);
  }

  /** The form is signed right behind the URL. */
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
  head: Told,
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

function bytesOf(part: Part, head: Told, url: string, key: KeyObject, values: RequestValues): Buffer {
  const { req, sent, time } = head;
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
      return headerBytes(wellFormed(sent?.pair(part.key), () => oneItem(part.key)));
    case "named-headers":
      return headerBytes(
        namedHeaders(
          wellFormed(sent?.pair(part.key), () => oneItem(part.key)),
          values,
        ),
      );
    case "timestamp":
      return headerBytes(wellFormed(time, () => "the time is missing"));
    case "method":
      return Buffer.from(req.method ?? "", "latin1");
    case "url":
      return Buffer.from(url, "utf8");
    case "secret":
      return key.export();
  }
}

const tooManyFields = () => "the form has too many fields";

/** Senders name two or three. */
const NAMED_HEADERS_MAX = 32;

/**
 * The values, joined with dots, as Hook0 signs them. Only the last may hold a dot, which types do, and must be an id or a
 * type: so each ends where it did when it was signed.
 */
function namedHeaders(names: string, values: RequestValues): string {
  const texts = names.split(" ", NAMED_HEADERS_MAX).map((name) => need(values.header([name])));
  const last = texts.length - 1;
  const areApart = texts.every((text, at) => (at < last ? !text.includes(".") : isToken(text)));
  if (!areApart) throw rejected("malformed", "the end of a signed header is ambiguous in the signed text");
  return texts.join(".");
}

const ORIGIN = /^(https?):\/\/([^/?]+?)(?::(\d+))?(?=[/?]|$)/;

/** The URL, and if its port may be left out or written out, both forms of it. */
function urlForms(publicUrl: string, portOptional: boolean): string[] {
  const [origin, scheme, host, port = scheme === "http" ? "80" : "443"] = ORIGIN.exec(publicUrl) ?? [];
  if (!portOptional || origin === undefined) return [publicUrl];
  const rest = publicUrl.slice(origin.length);
  return [`${scheme}://${host}${rest}`, `${scheme}://${host}:${port}${rest}`];
}
