import type { IncomingMessage } from "node:http";
import type { JobIds } from "../../../shared/pricing/price-list.ts";
import type { Catalog } from "../catalog.ts";
import { soldJob } from "../catalog.ts";
import { identifyPayment, readPayment, type SignedPayment } from "./header.ts";

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
