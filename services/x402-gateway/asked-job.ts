import type { IncomingMessage } from "node:http";
import type { JobIds } from "../../shared/job-call/job-ids.ts";
import type { Catalog, Job } from "./catalog.ts";
import { type ReadQuote, rejectedQuote } from "./payment/operator-quote.ts";
import { soldJob } from "./sold-job.ts";

type Deps = { catalog: Catalog; readQuote: ReadQuote };

export type AskedJob = (req: IncomingMessage, ids: JobIds) => Job;

/**
 * The job that a request asks for, at its price or at that of the quote it brings. Throws `job.not_found`, `job.disabled`
 * and `quote.*`.
 */
export function createAskedJob({ catalog, readQuote }: Deps): AskedJob {
  return (req, ids) => {
    const job = soldJob(catalog, ids);
    const quote = readQuote(req, ids);
    if (quote === undefined) return job;
    const quoted = catalog.quoted(job, quote);
    if (quoted.prices.length === 0 && job.prices.length > 0)
      throw rejectedQuote("its price comes to nothing that can be paid");
    return quoted;
  };
}
