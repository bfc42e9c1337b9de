import type { IncomingMessage } from "node:http";
import { allHeaders, headerBytes, rawQuery } from "../../http/headers.ts";
import { signatureBase } from "../../platform/crypto/message-signature.ts";
import { rejected } from "../rejected.ts";
import {
  type BareItem,
  type Item,
  type Parameters,
  serializeItem,
  serializeList,
} from "./structured-fields.ts";

/** Part of a request that a signature covers (RFC 9421, section 2). */
export type Component = Item & { readonly value: string };

type Signed = {
  readonly req: IncomingMessage;
  /** URL of the endpoint as the operator has entered it at the sender. Its own query does not count; `query` does. */
  readonly url: URL;
  /** Raw query of the request, without its question mark. */
  readonly query: string;
};

/**
 * Values of the derived components: those that are not headers (RFC 9421, section 2.2). `@query-param` is missing,
 * because its value depends on a parameter (`#queryParam`).
 */
const DERIVED: Readonly<Record<string, (request: Signed) => string>> = {
  "@method": ({ req }) => req.method ?? "",
  "@target-uri": ({ url, query }) => `${url.origin}${url.pathname}${withMark(query)}`,
  "@authority": ({ url }) => url.host,
  "@scheme": ({ url }) => url.protocol.slice(0, -1),
  "@request-target": ({ url, query }) => `${url.pathname}${withMark(query)}`,
  "@path": ({ url }) => url.pathname,
  "@query": ({ query }) => `?${query}`,
};

const QUERY_PARAM = "@query-param";
const HEADER_NAME = /^[a-z0-9!#$%&'*+.^_|~`-]{1,128}$/;

/** Component parameters of RFC 9421 (section 6.5.2) that are not supported. */
const PARAMETERS_REFUSED = ["sf", "key", "bs", "tr", "req"];

/**
 * Headers that must have only one value. If a request had two, a proxy and the runner could each use a different one.
 */
const HEADERS_ONCE = ["content-digest", "content-encoding", "content-length", "content-type", "date", "host"];

export const COMPONENT_PROBLEM = `must be a header name in lower case, or one of ${Object.keys(DERIVED).join(", ")}`;

/** Returns whether this names a component without parameters. */
export function isComponentName(name: string): boolean {
  return Object.hasOwn(DERIVED, name) || isHeaderComponent(name);
}

/** Returns whether this names a header. Derived components begin with a character that header names cannot contain. */
export function isHeaderComponent(name: string): boolean {
  return HEADER_NAME.test(name);
}

function withMark(query: string): string {
  return query === "" ? "" : `?${query}`;
}

/**
 * A request as its signer sees it. Its URL is `public_url` with the received query. It never uses Host, because the
 * client chooses that header.
 */
export class SignedRequest {
  readonly #signed: Signed;
  /** Headers and query parameters by name, cached so that many components need only one pass over the request. */
  #headers: Readonly<Record<string, string[]>> | undefined;
  #parameters: ReadonlyMap<string, string[]> | undefined;

  constructor(req: IncomingMessage, publicUrl: string) {
    this.#signed = { req, url: new URL(publicUrl), query: rawQuery(req.url ?? "") };
  }

  get hasQuery(): boolean {
    return this.#signed.query !== "";
  }

  /** Returns the signed bytes (RFC 9421, section 2.5). Throws `webhook.credential_rejected`. */
  base(components: readonly Component[], parameters: Parameters): Buffer {
    const lines = components.map((each) => `${serializeItem(each)}: ${this.#valueOf(each)}\n`);
    return headerBytes(signatureBase(lines.join(""), serializeList(components, parameters)));
  }

  #valueOf({ value: name, parameters }: Component): string {
    if (name === QUERY_PARAM) return this.#queryParam(parameters);
    if (parameters.size > 0) throw unsupported(parameters);
    const derive = Object.hasOwn(DERIVED, name) ? DERIVED[name] : undefined;
    if (derive !== undefined) return derive(this.#signed);
    if (!isHeaderComponent(name))
      throw rejected("malformed", `a component of the signature ${COMPONENT_PROBLEM}`);
    return this.#header(name);
  }

  /** Joins all values of a header (RFC 9421, section 2.1). Node has already removed the white space around each. */
  #header(name: string): string {
    this.#headers ??= allHeaders(this.#signed.req);
    const values = this.#headers[name] ?? [];
    if (values.length === 0) throw rejected("missing", `header ${name}, which is signed`);
    if (values.length > 1 && HEADERS_ONCE.includes(name)) throw rejected("repeated", `header ${name}`);
    if (values.some((value) => /[\r\n]/.test(value)))
      throw rejected("malformed", `header ${name} must be on one line`);
    return values.join(", ");
  }

  /**
   * Returns the value of a query parameter. The value is decoded and encoded again, so that both sides get the same
   * spelling (RFC 9421, section 2.2.8).
   */
  #queryParam(parameters: Parameters): string {
    const name = parameters.get("name");
    if (parameters.size !== 1 || typeof name !== "string") throw unsupported(parameters);
    const { query } = this.#signed;
    const [decoded = ""] = new URLSearchParams(`${name}=`).keys();
    if (encoded(decoded) !== name)
      throw rejected("malformed", `the name of ${QUERY_PARAM} must be percent-encoded`);
    this.#parameters ??= valuesByName(query);
    const [value, ...more] = this.#parameters.get(decoded) ?? [];
    if (value === undefined || more.length > 0)
      throw rejected(more.length > 0 ? "repeated" : "missing", "a query parameter that is signed");
    return encoded(value);
  }
}

function valuesByName(query: string): ReadonlyMap<string, string[]> {
  const values = new Map<string, string[]>();
  for (const [name, value] of new URLSearchParams(query)) {
    const known = values.get(name);
    if (known === undefined) values.set(name, [value]);
    else known.push(value);
  }
  return values;
}

/** Percent-encodes the same characters as a form does, but writes a space as `%20`, not as `+`. */
function encoded(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()~]/g,
    (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function unsupported(parameters: ReadonlyMap<string, BareItem>): Error {
  const known = PARAMETERS_REFUSED.find((name) => parameters.has(name));
  const which = known === undefined ? "a parameter" : `the parameter ${known}`;
  return rejected("malformed", `${which} of a signed component is not supported`);
}
