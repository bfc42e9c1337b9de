import { shellQuote } from "../text/shell-quote.ts";
import { DEV_JOBS, exampleBody } from "./dev-config.ts";

export type PayLine = {
  /** Of the job. */
  url: string;
  jobId: number;
  /** Only one of a devnet's: it is shown. */
  payerKey: string;
};

/** A command that a terminal takes as it stands and that buys the job. */
export function readyPay({ url, jobId, payerKey }: PayLine): string {
  const body = jobId === DEV_JOBS.slow ? exampleBody(jobId) : "hi";
  return `POSTERN_PAYER_KEY=${payerKey} npm run postern -- pay ${shellQuote(url)} --body ${shellQuote(body)}`;
}
