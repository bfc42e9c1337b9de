import { z } from "zod";
import { HTTP_ALGORITHMS, type HttpAlgorithm } from "../keys/algorithms.ts";
import type { Coverage } from "../signature-scheme.ts";
import type { Part } from "../template.ts";
import { COMPONENT_PROBLEM, isComponentName, isHeaderComponent } from "./signed-request.ts";

/*
 * The key `http_signature` of an endpoint: how its requests are signed with HTTP Message Signatures (RFC 9421). This
 * schema checks each key alone. shared/config/http-signature-toml.ts checks the rules between them.
 */

export const httpSignature = z.strictObject({
  algorithm: z.enum(Object.keys(HTTP_ALGORITHMS) as HttpAlgorithm[]),
  /** If not set, a signature must cover the method, the URL and the digest of the body (`uncovered`). */
  components: z.array(z.string().refine(isComponentName, COMPONENT_PROBLEM)).min(1).optional(),
  /**
   * Value that the signature's parameter `tag` must have. It names the application for which the signature was made.
   */
  tag: z
    .string()
    .regex(/^[ -~]+$/, "must be ASCII without control characters")
    .optional(),
  /** URL of a JWK Set with the sender's keys, instead of `secret`. */
  directory: z.string().optional(),
  past_secs: z.number().min(0).default(300),
  future_secs: z.number().min(0).default(60),
});
export type HttpSignature = z.output<typeof httpSignature>;

/** Components that a signer covers by default. */
const DEFAULT_COMPONENTS = ["@method", "@target-uri", "content-digest"];

export function componentsOf({ components = DEFAULT_COMPONENTS }: HttpSignature): readonly string[] {
  return components;
}

/**
 * Returns the values that the signature covers, as parts of a template. A signature of the header `Content-Digest`
 * counts as one of the body.
 */
export function httpCoverage(settings: HttpSignature): Coverage {
  const { past_secs, future_secs } = settings;
  return {
    signed: componentsOf(settings).flatMap(partOf),
    timestamp: { unit: "s", past_secs, future_secs },
  };
}

function partOf(component: string): Part[] {
  if (component === "content-digest") return [{ kind: "body" }];
  if (component === "@query" || component === "@target-uri") return [{ kind: "url" }];
  return isHeaderComponent(component) ? [{ kind: "header", names: [component] }] : [];
}

/** Properties of a request that decide which values its signature must cover. */
type Covered = { readonly hasQuery: boolean; readonly isDecoded: boolean };

/**
 * Describes the first required component that the signature does not cover; undefined if it covers all. The signed
 * digest is that of the body as received. If the gateway decodes the body, the signature must cover Content-Encoding as
 * well, so that a stranger cannot change how it is decoded.
 */
export function uncovered(
  { components }: HttpSignature,
  covered: ReadonlySet<string>,
  { hasQuery, isDecoded }: Covered,
): string | undefined {
  if (isDecoded && !covered.has("content-encoding")) return "content-encoding";
  const lacks = (names: readonly string[]) => names.find((name) => !covered.has(name));
  if (components !== undefined) return lacks(components);
  const parts = ["@authority", "@path", ...(hasQuery ? ["@query"] : [])];
  if (!covered.has("@target-uri") && lacks(parts) !== undefined)
    return `@target-uri, or ${parts.join(" and ")}`;
  return lacks(["@method", "content-digest"]);
}
