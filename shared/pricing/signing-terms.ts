import type { AcceptedToken } from "../config/x402-toml.ts";

/** A scheme of x402 by which jobs are sold. */
export type SchemeName = "exact";

/** The scheme of an offer, and the part of its `extra` that a client needs to sign. */
type SigningTerms = { scheme: SchemeName; extra: Readonly<Record<string, string>> };

/** A transfer method belongs to one scheme. */
export function signingTerms(token: AcceptedToken): SigningTerms {
  switch (token.transfer_method) {
    case "eip3009":
      return { scheme: "exact", extra: { name: token.eip3009_name, version: token.eip3009_version } };
    case "permit2":
      return { scheme: "exact", extra: { assetTransferMethod: "permit2" } };
  }
}
