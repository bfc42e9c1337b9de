import type { IncomingMessage } from "node:http";
import type { Clock } from "../../shared/platform/time/clock.ts";
import type { DocumentsOfEndpoints } from "./fetched-documents.ts";
import type { SignatureProof } from "./signature-check.ts";

/** Part of a check that needs the body. Undefined if the headers were enough for the whole check. */
type BodyCheck = SignatureProof | undefined;

/**
 * Checks a credential as far as possible without the body, and returns the part that needs the body. It may wait, for
 * example until the sender's keys are fetched. `address` is the client's address.
 */
export type Check = (req: IncomingMessage, address: string) => BodyCheck | Promise<BodyCheck>;

/** Parts of the gateway that the checks use. */
export type CheckDeps = {
  clock: Clock;
  documents: DocumentsOfEndpoints;
  /** Trusted certificate authorities in PEM. Undefined means Node's own list. */
  rootCertificates?: readonly string[] | undefined;
};
