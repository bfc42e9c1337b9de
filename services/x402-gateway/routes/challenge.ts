import type { IncomingMessage, ServerResponse } from "node:http";
import { encodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequired } from "@x402/core/types";
import type { JobIds } from "../../../shared/call/job-ids.ts";
import { COMMON_HEADERS } from "../../../shared/http/answer.ts";
import { leaveUnread } from "../../../shared/http/body.ts";
import { problemBody } from "../../../shared/http/problem.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import { CODES, type ErrorCode } from "../../../shared/platform/errors/codes.ts";
import { createEventCounter } from "../../../shared/platform/log/event-counter.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { type Clock, within } from "../../../shared/platform/time/clock.ts";
import { discoveryOf, resourceOf } from "../../../shared/pricing/discovery.ts";
import type { Partitioned } from "../../../shared/redis/partition.ts";
import { assertOffered, type Job, jobPath } from "../offer/catalog.ts";
import type { Narrowed, NarrowOffers } from "../offer/narrow-offers.ts";
import { expiryOf, type OfferSettings, toOffers, toOffersV1 } from "../offer/offer.ts";
import { findCallByQuote, type OperatorQuote } from "../offer/operator-quote.ts";
import type { RequestedJobs } from "../offer/requested-jobs.ts";
import { refusedClaim } from "../payment/outcome.ts";
import { OPTIONAL_IDENTIFIER, PAYMENT_IDENTIFIER } from "../payment/payment-identifier.ts";
import { DECLARATIONS } from "../schemes/gas-sponsoring.ts";

/** Reason for a 402: the request has no payment, or its payment cannot be accepted. */
type Why = { code: ErrorCode; detail: string };

/** Limit on how long a 402 waits for Redis, which knows whether the operator's quote in the request is already used. */
const QUOTE_CHECK_MS = 500;

const UNPAID: Why = { code: "payment.required", detail: "Payment is required" };

type Prepared = { status: number; expiry: number; headers: string[]; body: Buffer };

type Deps = {
  requestedJobs: RequestedJobs;
  narrowOffers: NarrowOffers;
  journals: Partitioned<Pick<PaymentJournal, "findQuoted">>;
  offerSettings: OfferSettings;
  /** Headers of every 402, in addition to the common headers of all answers. */
  headers: Readonly<Record<string, string>>;
  /** Clock of Redis, so that an offer expires at the same time at every gateway. */
  clock: Clock;
  log: Logger;
};

export type Challenge = ReturnType<typeof createChallenge>;

/**
 * Creates the functions that answer with a 402. Clients of both versions can pay it: `PAYMENT-REQUIRED` has the offers for
 * version 2, and `accepts` in the body those for version 1. For ten seconds, all unpaid requests for the same job and the same
 * networks get the same bytes.
 */
export function createChallenge(deps: Deps) {
  const { requestedJobs, narrowOffers, journals, offerSettings, headers: extraHeaders, clock, log } = deps;
  const preparedByJob = new WeakMap<Job, Map<string, Prepared>>();
  const counter = createEventCounter(log, "payment.challenged");

  function prepare(job: Job, why: Why): Prepared {
    const expiry = expiryOf(job, offerSettings, clock() / 1000);
    const accepts = toOffersV1(job, offerSettings);
    const body = Buffer.from(problemBody(why.code, why.detail, { x402Version: 1, accepts }));
    const headers = {
      ...COMMON_HEADERS,
      ...extraHeaders,
      "Content-Type": "application/problem+json",
      "Content-Length": String(body.length),
      "PAYMENT-REQUIRED": encodePaymentRequiredHeader(toRequired(job, offerSettings, expiry, why)),
    };
    return { status: CODES[why.code].status, expiry, headers: Object.entries(headers).flat(), body };
  }

  /**
   * Returns the 402 of an unpaid request, from the cache if possible. `job` has all its offers. `narrowed` is the same job with
   * only the offers for this request, such as those on the networks that its query names.
   */
  function prepareUnpaid(job: Job, { job: narrowed, key }: Narrowed): Prepared {
    if (job.operatorQuote !== undefined || key === undefined) return prepare(narrowed, UNPAID);
    const choices = preparedByJob.get(job) ?? new Map<string, Prepared>();
    const known = choices.get(key);
    if (known?.expiry === expiryOf(job, offerSettings, clock() / 1000)) return known;
    const prepared = prepare(narrowed, UNPAID);
    preparedByJob.set(job, choices.set(key, prepared));
    return prepared;
  }

  /**
   * Throws `quote.used` if the quote has bought a call. If Redis does not answer in time, the quote counts as unused here,
   * because the claim of a payment checks it again.
   */
  async function assertUnused(quote: OperatorQuote): Promise<void> {
    const checked = await within(QUOTE_CHECK_MS, findCallByQuote(quote, journals));
    if (checked.kind === "done" && checked.result !== undefined) throw refusedClaim("quote_used");
  }

  /** Sends the answer. The request's body stays unread if it is large. */
  function send(req: IncomingMessage, res: ServerResponse, { status, headers, body }: Prepared): void {
    if (res.headersSent || res.destroyed) return;
    leaveUnread(req, res);
    res.writeHead(status, headers);
    res.end(body);
  }

  return {
    /**
     * Answers a request without a payment with a 402, before its body is read. The answer is sent at once, unless Redis must
     * check an operator's quote. Throws, or rejects with, `job.not_found`, `job.disabled`, `quote.*`,
     * `payment.network_not_offered` and `price.unavailable`.
     */
    answerUnpaid(req: IncomingMessage, res: ServerResponse, ids: JobIds): Promise<void> | undefined {
      const job = requestedJobs.jobOf(req, ids);
      const selected = narrowOffers.select(job, req.url ?? "");
      assertOffered(selected.job);
      const offer = () => {
        send(req, res, prepareUnpaid(job, selected));
        counter.count(jobPath(ids), { serviceId: ids.serviceId, jobIndex: ids.jobIndex });
      };
      if (job.operatorQuote !== undefined) return assertUnused(job.operatorQuote).then(offer);
      offer();
      return undefined;
    },

    /** Refuses a payment that cannot be accepted with a 402, which says why and offers the job again. */
    offerAgain(req: IncomingMessage, res: ServerResponse, job: Job, why: Why): void {
      send(req, res, prepare(narrowOffers.selectOrAll(job, req.url ?? "").job, why));
    },

    /** Logs the unpaid requests that are counted and not logged yet. */
    flush: counter.flush,
  };
}

function toRequired(job: Job, settings: OfferSettings, expiry: number, why: Why): PaymentRequired {
  const bazaar = discoveryOf(job)?.bazaar;
  const gasSponsorings = job.prices.flatMap((price) => price.gasSponsorings);
  return {
    x402Version: 2,
    error: why === UNPAID ? why.detail : `${why.code}: ${why.detail}`,
    resource: resourceOf(job, settings.shop),
    accepts: toOffers(job, settings, expiry),
    extensions: {
      [PAYMENT_IDENTIFIER]: OPTIONAL_IDENTIFIER,
      ...(bazaar && { bazaar }),
      ...Object.fromEntries(gasSponsorings.map((name) => [name, DECLARATIONS[name]])),
    },
  };
}
