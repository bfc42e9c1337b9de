import { toAppError } from "../../shared/errors/app-error.ts";
import { logRefused } from "../../shared/http/problem.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { Clock } from "../../shared/time/clock.ts";
import type { GetJobPrice, JobPriceAnswer, JobPriceRequest } from "./job-price.ts";

type Deps = { getJobPrice: GetJobPrice; clock: Clock; log: Logger };

/** Asks for a price, whichever way the request came; each outcome is one event. Throws an AppError. */
export type Ask = (
  via: "grpc" | "http",
  read: () => JobPriceRequest | Promise<JobPriceRequest>,
) => Promise<JobPriceAnswer>;

export function createAsk({ getJobPrice, clock, log }: Deps): Ask {
  return async (via, read) => {
    const startedAt = clock();
    let ids: object = {};
    try {
      const request = await read();
      ids = { serviceId: String(request.serviceId), jobIndex: request.jobIndex };
      const answer = await getJobPrice(request);
      const { requester, priceWei, expiry } = answer.signed.quote;
      const terms = { requester, priceWei: String(priceWei), expiry: Number(expiry) };
      log.info("quote.issued", { via, ...ids, ...terms, ms: clock() - startedAt });
      return answer;
    } catch (thrown) {
      const error = toAppError(thrown);
      logRefused(log, "quote.refused", error, { via, ...ids, ms: clock() - startedAt });
      throw error;
    }
  };
}
