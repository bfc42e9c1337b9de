import type { IncomingMessage } from "node:http";
import { toTarget } from "../../../shared/call/callback-target.ts";
import type { JobIds } from "../../../shared/call/job-ids.ts";
import type { CallbackAsked, ReadCallback } from "../../../shared/ingress/read-callback.ts";
import type { Catalog, Job } from "./catalog.ts";
import { type OperatorQuotes, rejectedQuote } from "./operator-quote.ts";

type Deps = { catalog: Catalog; operatorQuotes: OperatorQuotes; readCallback: ReadCallback };

/** Reads what a request for a job brings: an operator's quote and a callback. */
export class RequestedJobs {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * The job that a request is for, at its list price or at that of the operator's quote which the request brings. Throws
   * `job.not_found`, `job.disabled`, `quote.*`, and `request.malformed` or `callback.refused` for a receiver that would not be told.
   */
  jobOf(req: IncomingMessage, ids: JobIds): Job {
    const { catalog, operatorQuotes } = this.#deps;
    const job = catalog.get(ids);
    this.callbackFor(req, job);
    const operatorQuote = operatorQuotes.read(req, ids);
    if (operatorQuote === undefined) return job;
    const quoted = catalog.quoted(job, operatorQuote);
    if (quoted.prices.length === 0 && job.prices.length > 0)
      throw rejectedQuote("its price cannot be paid in any accepted token");
    return quoted;
  }

  /** The callback for the end of the call that this request buys. */
  callbackFor(req: IncomingMessage, { callbackUrl }: Job): CallbackAsked | undefined {
    return this.#deps.readCallback(
      req,
      callbackUrl === undefined ? undefined : toTarget(new URL(callbackUrl)),
    );
  }
}
