import type { Proof } from "./auth-modes.ts";
import type { Coverage } from "./signature-scheme.ts";
import { type Part, toParts } from "./template.ts";

/** Returns whether a signature covers everything that a template reads, so that only the sender can change it. */
export function isSignedBy(template: readonly Part[], { coverage }: Proof): boolean {
  return coverage !== undefined && isCovered(template, coverage);
}

/**
 * Returns the time in seconds for which a recorded delivery could be accepted again. Its signed timestamp limits this
 * time. With several schemes, the longest time counts. Undefined if a delivery never becomes too old.
 */
export function acceptedSecs({ coverage }: Proof): number | undefined {
  if (coverage === undefined || !isTimed(coverage)) return undefined;
  return Math.max(
    ...coverage.map(({ timestamp }) => (timestamp?.past_secs ?? 0) + (timestamp?.future_secs ?? 0)),
  );
}

/**
 * Returns whether only the sender can change what a template reads, under every scheme. Either the signature covers it,
 * or the request contains the secret itself, which only the sender knows.
 */
export function isCovered(template: readonly Part[], schemes: readonly Coverage[]): boolean {
  return schemes.every((scheme) => {
    if (scheme.algorithm === "equal") return true;
    const { signed: text = "{body}" } = scheme;
    const signed = typeof text === "string" ? toParts(text) : text;
    return template.every((part) => part.kind === "literal" || signs(signed, scheme, part));
  });
}

function signs(signed: readonly Part[], scheme: Coverage, part: Part): boolean {
  switch (part.kind) {
    case "field":
      return signed.some(({ kind }) => kind === "body") || isSigned(signed, part);
    case "header":
      // Every accepted request has one of the signed headers, and the first one counts. A template reads that header
      // too if its list of headers begins with the signed ones, in the same order.
      return signed.some(
        (other) => other.kind === "header" && other.names.every((name, i) => name === part.names[i]),
      );
    case "query":
      return signed.some(({ kind }) => kind === "url") || isSigned(signed, part);
    default:
      return scheme.signed !== undefined && isSigned(signed, part);
  }
}

function isSigned(signed: readonly Part[], part: Part): boolean {
  return signed.some((other) => JSON.stringify(other) === JSON.stringify(part));
}

/** Returns whether every scheme covers the time of signing and refuses old requests. */
export function isTimed(schemes: readonly Coverage[]): boolean {
  return schemes.every(({ timestamp }) => timestamp?.past_secs !== undefined);
}
