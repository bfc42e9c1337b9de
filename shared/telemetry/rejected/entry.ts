import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { rawPath } from "../../http/headers.ts";
import type { ErrorCode } from "../../platform/errors/codes.ts";
import { visible } from "../../platform/text/visible.ts";
import { withoutTokens } from "../../platform/text/without-tokens.ts";
import type { CredentialKind } from "../../webhook-auth/advice.ts";

/** A refused request, as the gateway that refused it describes it. */
export type Rejection = {
  req: IncomingMessage;
  /** The client's address. */
  address: string;
  code: ErrorCode;
  /** For operators. It holds nothing of a credential. */
  reason: string;
  /** The names of the credential headers that came, where the endpoint wanted a credential, and of which kind. */
  signatures?:
    | { came: readonly string[]; wanted: readonly string[]; kind?: CredentialKind | undefined }
    | undefined;
  /** The delivery id, if the endpoint reads it from headers alone. */
  delivery?: string | undefined;
  /** How many bytes of the body arrived. Without it the entry has the size that the request declared. */
  bytes?: number | undefined;
  /** The body, or its beginning, only if the endpoint keeps the bodies of rejected requests. */
  body?: Buffer | undefined;
};

/** The record of a refused request. It holds no header value but the delivery id, no query value, no user of a URL and no token of a result. */
export type RejectedEntry = {
  id: string;
  /** Unix ms. */
  at: number;
  address: string;
  method: string;
  /** As it came, without its query. Characters outside visible ASCII are percent-encoded. */
  path: string;
  /** The names of the query's parameters. */
  query: readonly string[];
  code: ErrorCode;
  reason: string;
  headers: readonly string[];
  came?: readonly string[];
  wanted?: readonly string[];
  credential?: CredentialKind;
  /** At most its first 128 characters, and `...` if it is longer. Characters outside visible ASCII are percent-encoded. */
  delivery?: string;
  bytes?: number;
  /** The beginning of the body, in base64. */
  body?: string;
  /** How many requests were refused here since the entry before and have none, because there were too many. */
  missed: number;
};

const TEXT_MAX = 256;
const DELIVERY_MAX = 128;
const NAME_MAX = 48;
const HEADERS_MAX = 32;
const FEW_MAX = 8;
/** A longer body is cut to this. */
export const REJECTED_BODY_BYTES_MAX = 4096;

/** Describes a refused request in at most 4 KB, or 10 KB with a body. */
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

/** An id begins with its time, so that an entry is found among others of its time. */
function rejectedId(at: number): string {
  return `r_${at.toString(16).padStart(TIME_DIGITS, "0")}${randomBytes(4).toString("hex")}`;
}

/** Enough of an id to tell some days from all the others. */
export const REJECTED_ID_BEGINNING = /^r_[0-9a-f]{4,19}$/;
export const NOT_A_REJECTED_ID =
  "must be the id of a refused request: r_ and 19 lower-case hex digits, or at least the first 4 of them";

/** When the entries came whose ids begin so. */
export function timesOf(beginning: string): { from: number; to: number } {
  const digits = beginning.slice(2, 2 + TIME_DIGITS);
  const at = (rest: "0" | "f") => Number.parseInt(digits.padEnd(TIME_DIGITS, rest), 16);
  return { from: at("0"), to: at("f") };
}

/** A target may be a whole URL, with a user and password before its host. */
function withoutUser(target: string): string {
  return target.startsWith("/") ? target : target.replace(/^([^:/?]+:\/\/)[^/?]*@/, "$1");
}

/** A parameter without a value may be a credential as a whole, so it has no name here. */
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
