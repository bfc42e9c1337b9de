import type { IncomingMessage, ServerResponse } from "node:http";
import type { JobIds } from "../../shared/prices/price-list.ts";
import type { AskedJob } from "./asked-job.ts";
import type { AskedTally } from "./asked-tally.ts";
import type { Challenge } from "./challenge.ts";

type Deps = { askedJob: AskedJob; challenge: Challenge; asked: AskedTally };

export type AskForPayment = (req: IncomingMessage, res: ServerResponse, ids: JobIds) => void;

/**
 * A request without payment is told the price before anything of its body is looked at. Throws `job.not_found`,
 * `job.disabled` and `quote.*`.
 */
export function createAskForPayment({ askedJob, challenge, asked }: Deps): AskForPayment {
  return (req, res, ids) => {
    challenge.send(req, res, { job: askedJob(req, ids) });
    asked.count(ids);
  };
}
