import type { IncomingMessage } from "node:http";
import { toTarget } from "../../../shared/call/callback-target.ts";
import type { JobIds } from "../../../shared/call/job-ids.ts";
import type { ChosenCallback, ReadCallback } from "../../../shared/ingress/read-callback.ts";
import type { Catalog, Job } from "./catalog.ts";
import { type OperatorQuotes, rejectedQuote } from "./operator-quote.ts";

type Deps = { catalog: Catalog; operatorQuotes: OperatorQuotes; readCallback: ReadCallback };

/** Finds the job that a request asks for. Also reads the operator's quote and the callback in the request. */
export class RequestedJobs {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Returns the requested job, at its list price or at the price of the operator's quote in the request. Throws `job.not_found`,
   * `job.disabled` and `quote.*`. Throws `request.malformed` or `callback.refused` if the request names a callback receiver that
   * is not allowed.
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

  /**
   * Returns the receiver that gets a message when the call that this request buys has ended. It comes from the request or from
   * the job's configuration.
   */
  callbackFor(req: IncomingMessage, { callbackUrl }: Job): ChosenCallback | undefined {
    return this.#deps.readCallback(
      req,
      callbackUrl === undefined ? undefined : toTarget(new URL(callbackUrl)),
    );
  }
}
