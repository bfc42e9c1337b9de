import type { IncomingMessage } from "node:http";
import type { Clock } from "../../shared/platform/time/clock.ts";
import type { DocumentsOfEndpoints } from "./fetched-documents.ts";
import type { SignatureProof } from "./signature-check.ts";

/** Check that remains to be made with the body, if any. */
type BodyCheck = SignatureProof | undefined;

/**
 * Checks a credential as far as possible without the body. It may wait, for example for the sender's keys. `address` is
 * the client's address.
 */
export type Check = (req: IncomingMessage, address: string) => BodyCheck | Promise<BodyCheck>;

/** Parts of the gateway that the checks use. */
export type CheckDeps = {
  clock: Clock;
  documents: DocumentsOfEndpoints;
  /** Trusted certificate authorities in PEM. Undefined means Node's own list. */
  rootCertificates?: readonly string[] | undefined;
};
