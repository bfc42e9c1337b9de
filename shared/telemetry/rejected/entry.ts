import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { rawPath } from "../../http/headers.ts";
import type { ErrorCode } from "../../platform/errors/codes.ts";
import { visible } from "../../platform/text/visible.ts";
import { withoutTokens } from "../../platform/text/without-tokens.ts";
import type { CredentialKind } from "../../webhook-auth/advice.ts";

/** Description of a refused request by the gateway that refused it. */
export type Rejection = {
  req: IncomingMessage;
  /** The client's address. */
  address: string;
  code: ErrorCode;
  /** Reason that operators see. It contains no part of a credential. */
  reason: string;
  /** Names of the credential headers in the request, names of those that the endpoint expects, and the kind of credential. */
  signatures?:
    | { came: readonly string[]; wanted: readonly string[]; kind?: CredentialKind | undefined }
    | undefined;
  /** The sender's id of the delivery. Absent if the endpoint does not read it from headers alone. */
  delivery?: string | undefined;
  /** Number of bytes of the body that arrived. If absent, the entry records the size in the Content-Length header. */
  bytes?: number | undefined;
  /** The body or its beginning. Present only if the endpoint is configured to keep the bodies of refused requests. */
  body?: Buffer | undefined;
};

/**
 * The stored record of a refused request. Operators read it, so it contains nothing that may be a secret. It has no
 * header value except the delivery id, no query value, no user or password of a URL, and no result token.
 */
export type RejectedEntry = {
  id: string;
  /** Unix ms. */
  at: number;
  address: string;
  method: string;
  /** Path as received, without its query. Characters outside visible ASCII are percent-encoded. */
  path: string;
  /** Names of the query's parameters. */
  query: readonly string[];
  code: ErrorCode;
  reason: string;
  headers: readonly string[];
  came?: readonly string[];
  wanted?: readonly string[];
  credential?: CredentialKind;
  /**
   * The first 128 characters of the delivery id, and `...` if it is longer. Characters outside visible ASCII are
   * percent-encoded.
   */
  delivery?: string;
  bytes?: number;
  /** The beginning of the body, in base64. */
  body?: string;
  /** Number of refused requests to this path that were not recorded since the path's previous entry. */
  missed: number;
};

const TEXT_MAX = 256;
const DELIVERY_MAX = 128;
const NAME_MAX = 48;
const HEADERS_MAX = 32;
const FEW_MAX = 8;
/** Maximum size of a kept body; a longer body is cut. */
export const REJECTED_BODY_BYTES_MAX = 4096;

/** Makes the stored record of a refused request. It has at most 4 KB, or 10 KB with a body. */
export function toEntry(rejection: Rejection, at: number, missed: number): RejectedEntry {
  const { req, address, code, reason, signatures, delivery, body } = rejection;
  const target = req.url ?? "";
  const bytes = rejection.bytes ?? declaredBytes(req);
  return {
    id: rejectedId(at),
    at,
    address: visible(address, NAME_MAX),
    method: visible(req.method ?? "", NAME_MAX),
    path: visible(withoutTokens(withoutUser(rawPath(target))), TEXT_MAX),
    query: queryNames(target),
    code,
    reason: reason.slice(0, TEXT_MAX).replace(/[^ -~]/g, "?"),
    headers: bounded(
      req.rawHeaders.filter((_, i) => i % 2 === 0),
      HEADERS_MAX,
    ),
    ...(signatures && {
      came: bounded(signatures.came, FEW_MAX),
      wanted: bounded(signatures.wanted, FEW_MAX),
      ...(signatures.kind && { credential: signatures.kind }),
    }),
    ...(delivery !== undefined && { delivery: visible(delivery, DELIVERY_MAX) }),
    ...(bytes !== undefined && { bytes }),
    ...(body && { body: body.subarray(0, REJECTED_BODY_BYTES_MAX).toString("base64") }),
    missed,
  };
}

const TIME_DIGITS = 11;

/**
 * Creates an id that begins with the time in hex. Redis sorts the entries by time. So `timesOf` can turn an id, or a
 * prefix of it, into the range of times in which to search.
 */
function rejectedId(at: number): string {
  return `r_${at.toString(16).padStart(TIME_DIGITS, "0")}${randomBytes(4).toString("hex")}`;
}

/**
 * Matches an id, or a prefix of it with at least 4 digits. A shorter prefix would select too many entries: even those
 * that share 4 digits can be almost three days apart.
 */
export const REJECTED_ID_BEGINNING = /^r_[0-9a-f]{4,19}$/;
export const NOT_A_REJECTED_ID =
  "must be the id of a refused request: r_ and 19 lower-case hex digits, or at least the first 4 of them";

/** Returns the earliest and the latest possible time of an entry whose id has this prefix. */
export function timesOf(beginning: string): { from: number; to: number } {
  const digits = beginning.slice(2, 2 + TIME_DIGITS);
  const at = (rest: "0" | "f") => Number.parseInt(digits.padEnd(TIME_DIGITS, rest), 16);
  return { from: at("0"), to: at("f") };
}

/** Removes the user and password from a request target. It has them only if the client sent a whole URL instead of a path. */
function withoutUser(target: string): string {
  return target.startsWith("/") ? target : target.replace(/^([^:/?]+:\/\/)[^/?]*@/, "$1");
}

/**
 * Lists the names of the query's parameters. A parameter without a value may itself be a credential, so its name is left out.
 */
function queryNames(target: string): string[] {
  const start = target.indexOf("?");
  if (start === -1) return [];
  const parts = target.slice(start + 1).split("&");
  const names = parts.map((part) => (part.includes("=") ? part.slice(0, part.indexOf("=")) : "..."));
  return bounded(names, FEW_MAX);
}

function bounded(names: readonly string[], most: number): string[] {
  const shown = names.slice(0, most).map((name) => visible(withoutTokens(name), NAME_MAX));
  return names.length <= most ? shown : [...shown, `... and ${names.length - most} more`];
}

function declaredBytes(req: IncomingMessage): number | undefined {
  const text = req.headers["content-length"];
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}
