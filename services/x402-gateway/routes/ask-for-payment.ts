import type { IncomingMessage, ServerResponse } from "node:http";
import type { JobIds } from "../../../shared/job-call/job-ids.ts";
import type { AskedJob } from "../asked-job.ts";
import { assertOffered } from "../sold-job.ts";
import type { AskedTally } from "./asked-tally.ts";
import type { Challenge } from "./challenge.ts";

type Deps = { askedJob: AskedJob; challenge: Challenge; asked: AskedTally };

export type AskForPayment = (req: IncomingMessage, res: ServerResponse, ids: JobIds) => void;

/**
 * A request without payment is told the price before anything of its body is looked at. Throws `job.not_found`,
 * `job.disabled`, `quote.*` and `price.unavailable`.
 */
export function createAskForPayment({ askedJob, challenge, asked }: Deps): AskForPayment {
  return (req, res, ids) => {
    const job = askedJob(req, ids);
    assertOffered(job);
    challenge.send(req, res, { job });
    asked.count(ids);
  };
}
