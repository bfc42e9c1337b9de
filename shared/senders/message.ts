import type { IncomingMessage } from "node:http";
import { headerBytes, rawQuery } from "../http/headers.ts";
import { type Ends, endsOf, isEnded, isToken } from "./boundary.ts";
import type { Scheme } from "./description.ts";
import type { Key } from "./key.ts";
import { need, rejected, wellFormed } from "./rejected.ts";
import { oneItem, type Sent } from "./sent.ts";
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
  /** Whether the hash of the body stands in the signed URL. */
  readonly hasBodySha256: boolean;
};

/** Parts for which the body must be there. */
const NEEDS_BODY: readonly Part["kind"][] = ["body", "field", "form"];
const NOTHING = Buffer.alloc(0);
const NO_URL: readonly string[] = [""];

type Piece = { readonly part: Part; readonly ends: Ends };

/** The bytes that a sender signs, by the description's `signed`. */
export class Message {
  /** Whether it is the body between bytes that the head tells, so that its digest can be computed while the body arrives. */
  readonly isStreamed: boolean;
  readonly #pieces: readonly Piece[];
  /** Those before and after the body. */
  readonly #before: readonly Piece[];
  readonly #after: readonly Piece[];
  readonly #urls: readonly string[];
  /** Whether the first byte of the body tells where it begins. */
  readonly #marksBody: boolean;

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
    const signsUrl = parts.some(({ kind }) => kind === "url");
    this.#urls = signsUrl ? urlForms(publicUrl, scheme.url_port_optional === true) : NO_URL;
  }

  /** The URLs of which one is signed; one empty text if none is. Throws `webhook.credential_rejected`. */
  urls({ req, hasBodySha256 }: Head): readonly string[] {
    if (this.#urls === NO_URL) return NO_URL;
    return this.#urls.map((url) => signedUrl(url, req, hasBodySha256));
  }

  before(head: Head, url: string, key: Key): Buffer {
    return bytesOfAll(this.#before, head, url, key, head.values);
  }

  after(head: Head, url: string, key: Key): Buffer {
    return bytesOfAll(this.#after, head, url, key, head.values);
  }

  /** `values` are those of the request with its body. */
  whole(head: Head, url: string, key: Key, values: RequestValues): Buffer {
    return bytesOfAll(this.#pieces, head, url, key, values);
  }

  /** Throws `webhook.credential_rejected` if a body that starts like this could have lost or won bytes at its beginning. */
  checkFirst(byte: number | undefined): void {
    if (this.#marksBody && byte !== undefined && isToken(String.fromCharCode(byte)))
      throw rejected("malformed", "the body begins like the value that is signed before it");
  }
}

function bytesOfAll(
  pieces: readonly Piece[],
  head: Head,
  url: string,
  key: Key,
  values: RequestValues,
): Buffer {
  if (pieces.length === 0) return NOTHING;
  return Buffer.concat(
    pieces.map(({ part, ends }) => {
      const bytes = bytesOf(part, head, url, key, values);
      if (part.kind !== "named-headers" && !isEnded(bytes, ends))
        throw rejected("malformed", `the value of {${part.kind}} could be part of what follows`);
      return bytes;
    }),
  );
}

function bytesOf(part: Part, head: Head, url: string, key: Key, values: RequestValues): Buffer {
  const { req, sent, time } = head;
  switch (part.kind) {
    case "literal":
      return Buffer.from(part.text, "utf8");
    case "body":
      return values.body;
    case "form":
      return head.hasBodySha256 ? NOTHING : Buffer.from(wellFormed(values.form(), tooManyFields), "utf8");
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
      return key as Buffer;
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
  if (!areApart) throw rejected("malformed", "the value of a signed header could be part of what follows");
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

/**
 * The URL as it is written at the sender, never made of Host. The request's query must be the same, unless the sender adds
 * the hash of the body to it.
 */
function signedUrl(url: string, req: IncomingMessage, hasBodySha256: boolean): string {
  const query = rawQuery(req.url ?? "");
  if (hasBodySha256) return `${url.split("?")[0]}?${query}`;
  if (query !== rawQuery(url)) throw rejected("mismatch", "the query is not that of public_url");
  return url;
}
