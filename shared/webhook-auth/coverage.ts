import type { Proof } from "./auth-modes.ts";
import type { Coverage } from "./signature-scheme.ts";
import { type Part, toParts } from "./template.ts";

/**
 * Returns whether the endpoint's signature covers everything that a template reads. Only the sender can then change
 * what the template yields.
 */
export function isSignedBy(template: readonly Part[], { coverage }: Proof): boolean {
  return coverage !== undefined && isCovered(template, coverage);
}

/**
 * Returns the time in seconds for which a stranger who has recorded a delivery could send it again and have it
 * accepted. The signed timestamp limits this time. If the endpoint has several schemes, the longest time counts.
 * Undefined if a delivery never becomes too old.
 */
export function acceptedSecs({ coverage }: Proof): number | undefined {
  if (coverage === undefined || !isTimed(coverage)) return undefined;
  return Math.max(
    ...coverage.map(({ timestamp }) => (timestamp?.past_secs ?? 0) + (timestamp?.future_secs ?? 0)),
  );
}

/**
 * Returns whether only the sender can change what a template reads, no matter which of the schemes a request uses. It
 * is so if the signature covers what the template reads, or if the request contains the secret itself, which only the
 * sender knows.
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
      // If the signature covers one of several headers, it covers the first that the request has. An accepted request
      // has at least one of them. A template reads the same header if its list begins with the signed headers, in the
      // same order.
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
