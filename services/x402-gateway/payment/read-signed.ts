import type { IncomingMessage } from "node:http";
import type { JobIds } from "../../../shared/job-call/job-ids.ts";
import type { Catalog } from "../catalog.ts";
import { soldJob } from "../sold-job.ts";
import { readPayment } from "./header.ts";
import { identifyPayment, type SignedPayment } from "./signer.ts";

type Deps = { catalog: Catalog; assertOpen: () => void };

/**
 * The payment of a request, and who signed it. One that cannot be read is nobody's, so there is no answer of its own to
 * look for: the job, its policy and the limits refuse before it does.
 */
export function readSigned({ catalog, assertOpen }: Deps, req: IncomingMessage, ids: JobIds): SignedPayment {
  try {
    return identifyPayment(readPayment(req), catalog.tokens);
  } catch (refusal) {
    soldJob(catalog, ids);
    assertOpen();
    throw refusal;
  }
}
