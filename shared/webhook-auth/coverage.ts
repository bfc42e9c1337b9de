import type { Scheme } from "./signature-scheme.ts";
import { type Part, toParts } from "./template.ts";

/**
 * Whether all that a template reads is proven by every scheme: covered by its signature, or told by somebody who has the
 * token itself. Nobody but the sender can then change it.
 */
export function isCovered(template: readonly Part[], schemes: readonly Scheme[]): boolean {
  return schemes.every((scheme) => {
    if (scheme.algorithm === "equal") return true;
    const signed = toParts(scheme.signed ?? "{body}");
    return template.every((part) => part.kind === "literal" || signs(signed, scheme, part));
  });
}

function signs(signed: readonly Part[], scheme: Scheme, part: Part): boolean {
  switch (part.kind) {
    case "field":
      return signed.some(({ kind }) => kind === "body") || isSigned(signed, part);
    case "header":
      // A header that is signed is there, so the first name that it has decides.
      return signed.some((other) => other.kind === "header" && other.names[0] === part.names[0]);
    case "query":
      return signed.some(({ kind }) => kind === "url") || isSigned(signed, part);
    default:
      return scheme.signed !== undefined && isSigned(signed, part);
  }
}

function isSigned(signed: readonly Part[], part: Part): boolean {
  return signed.some((other) => JSON.stringify(other) === JSON.stringify(part));
}

/** Whether every scheme covers when the request was signed, and refuses it once it is old. */
export function isTimed(schemes: readonly Scheme[]): boolean {
  return schemes.every(({ timestamp }) => timestamp?.past_secs !== undefined);
}
