import { type Places, type Proof, placesOf } from "../webhook-auth/auth-modes.ts";
import type { Part } from "../webhook-auth/template.ts";
import type { EndpointFields } from "./endpoint-fields.ts";

/** Where the requests of an endpoint have its credential, or what proves a handshake of it. */
export function credentialPlaces(proof: Proof, { handshakes }: Pick<EndpointFields, "handshakes">): Places {
  const { headers, queries, fields } = placesOf(proof);
  const proofs = handshakes.flatMap(({ proof }) => (typeof proof === "object" ? [proof] : []));
  const secretHeaders = proofs.flatMap((proof) => ("secret_header" in proof ? [proof.secret_header] : []));
  return {
    // Those that hold credentials by their definition too, also where this endpoint does not ask for them.
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

/** What part of a credential a part of a template reads; undefined if none. */
export function credentialRead(part: Part, { headers, queries, fields }: Places): string | undefined {
  switch (part.kind) {
    case "header":
      return part.names.some((name) => headers.includes(name)) ? "the credential's header" : undefined;
    case "query":
      return queries.includes(part.name) ? "the credential's query parameter" : undefined;
    case "field":
      return fields.some((field) => meet(field, part.pointer)) ? "the credential's field" : undefined;
    default:
      return undefined;
  }
}

/**
 * Whether two pointers can read the same text. What is above a text is a table or a list, and below it there is nothing:
 * neither is read as text. So only pointers of the same length can meet.
 */
function meet(one: readonly string[], other: readonly string[]): boolean {
  return (
    one.length === other.length &&
    one.every((token, at) => token === other[at] || token === "*" || other[at] === "*")
  );
}
