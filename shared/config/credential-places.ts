import type { Places, Proof } from "../webhook-auth/auth-modes.ts";
import type { Part } from "../webhook-auth/template.ts";
import type { EndpointFields } from "./endpoint-fields.ts";

/** Returns the places in an endpoint's requests that contain its credential or the proof of a handshake. */
export function credentialPlaces(
  { places }: Proof,
  { handshakes }: Pick<EndpointFields, "handshakes">,
): Places {
  const { headers, queries, fields } = places;
  const proofs = handshakes.flatMap(({ proof }) => (typeof proof === "object" ? [proof] : []));
  const secretHeaders = proofs.flatMap((proof) => ("secret_header" in proof ? [proof.secret_header] : []));
  return {
    // The standard headers for credentials are included even if this endpoint does not use them.
    headers: [
      ...["authorization", "proxy-authorization", "cookie"],
      ...headers,
      ...secretHeaders.map((name) => name.toLowerCase()),
    ],
    queries: [
      ...queries,
      ...proofs.flatMap((proof) => ("verify_token" in proof ? [proof.verify_token] : [])),
    ],
    fields,
  };
}

/** Names the place of a credential that this part of a template reads; undefined if it reads none. */
export function credentialRead(part: Part, { headers, queries, fields }: Places): string | undefined {
  switch (part.kind) {
    case "header":
      return part.names.some((name) => headers.includes(name)) ? "the credential's header" : undefined;
    case "query":
      return queries.includes(part.name) ? "the credential's query parameter" : undefined;
    case "field":
      return fields.some((field) => canReadSameText(field, part.pointer))
        ? "the credential's field"
        : undefined;
    default:
      return undefined;
  }
}

/**
 * Whether two pointers can read the same text. Values above a text are tables or lists, and a text has nothing below
 * it, so only pointers of the same length can match.
 */
function canReadSameText(one: readonly string[], other: readonly string[]): boolean {
  return (
    one.length === other.length &&
    one.every((token, at) => token === other[at] || token === "*" || other[at] === "*")
  );
}
