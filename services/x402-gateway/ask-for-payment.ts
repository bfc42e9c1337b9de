import type { IncomingMessage, ServerResponse } from "node:http";
import type { JobIds } from "../../shared/prices/price-list.ts";
import type { AskedTally } from "./asked-tally.ts";
import type { Catalogue } from "./catalogue.ts";
import type { Challenge } from "./challenge.ts";
import { soldJob } from "./sold-job.ts";

type Deps = { catalogue: Catalogue; challenge: Challenge; asked: AskedTally };

export type AskForPayment = (req: IncomingMessage, res: ServerResponse, ids: JobIds) => void;

/**
 * A request without payment is told the price before anything of its body is looked at. Throws `job.not_found` and
 * `job.disabled`.
 */
export function createAskForPayment({ catalogue, challenge, asked }: Deps): AskForPayment {
  return (req, res, ids) => {
    challenge.send(req, res, { job: soldJob(catalogue, ids) });
    asked.count(ids);
  };
}
