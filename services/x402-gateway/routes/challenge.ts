import type { IncomingMessage, ServerResponse } from "node:http";
import { encodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequired } from "@x402/core/types";
import { declarePaymentIdentifierExtension, PAYMENT_IDENTIFIER } from "@x402/extensions/payment-identifier";
import type { ErrorCode } from "../../../shared/errors/codes.ts";
import { leaveUnread } from "../../../shared/http/body.ts";
import { COMMON_HEADERS, problemBody } from "../../../shared/http/problem.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import type { Job } from "../catalog.ts";
import { CORS_HEADERS } from "../cors.ts";
import { descriptionOf, expiryOf, type OfferSettings, toOffers, toOffersV1 } from "../payment/offer.ts";
import { jobPath } from "../route.ts";

/** Why payment is asked for: because none was sent, or because this one cannot be taken. */
export type Why = { code: ErrorCode; detail: string };

const UNPAID: Why = { code: "payment.required", detail: "Payment is required" };

type Answer = { job: Job; expiry: number; headers: string[]; body: string };

export type Challenge = ReturnType<typeof createChallenge>;

/**
 * The 402 that clients of both versions can pay: `PAYMENT-REQUIRED` for version 2, `accepts` in the body for version 1.
 * The answer to a request without payment is made once for each job and some seconds, and then sent as it is.
 */
export function createChallenge(settings: OfferSettings, clock: Clock) {
  const made = new Map<string, Answer>();

  function make(job: Job, why: Why): Answer {
    const expiry = expiryOf(job, settings, clock() / 1000);
    const body = problemBody(why.code, why.detail, { x402Version: 1, accepts: toOffersV1(job, settings) });
    const headers = {
      ...COMMON_HEADERS,
      ...CORS_HEADERS,
      "Content-Type": "application/problem+json",
      "Content-Length": String(Buffer.byteLength(body)),
      "PAYMENT-REQUIRED": encodePaymentRequiredHeader(toRequired(job, { settings, expiry, why })),
    };
    return { job, expiry, headers: Object.entries(headers).flat(), body };
  }

  function unpaid(job: Job): Answer {
    if (job.quote !== undefined) return make(job, UNPAID);
    const path = jobPath(job);
    const known = made.get(path);
    if (known?.job === job && known.expiry === expiryOf(job, settings, clock() / 1000)) return known;
    const answer = make(job, UNPAID);
    made.set(path, answer);
    return answer;
  }

  return {
    /** Nothing of a large body is read on. */
    send(req: IncomingMessage, res: ServerResponse, { job, why }: { job: Job; why?: Why }): void {
      if (res.headersSent || res.destroyed) return;
      const { headers, body } = why === undefined ? unpaid(job) : make(job, why);
      leaveUnread(req, res);
      // A flat list replaces what was set before, and that is all that may have been.
      res.writeHead(402, res.hasHeader("Connection") ? ["Connection", "close", ...headers] : headers);
      res.end(body);
    },
  };
}

type Asked = { settings: OfferSettings; expiry: number; why: Why };

function toRequired(job: Job, { settings, expiry, why }: Asked): PaymentRequired {
  return {
    x402Version: 2,
    error: why === UNPAID ? why.detail : `${why.code}: ${why.detail}`,
    resource: {
      url: `${settings.publicUrl}${jobPath(job)}`,
      description: descriptionOf(job),
      mimeType: "application/json",
    },
    accepts: toOffers(job, settings, expiry),
    extensions: { [PAYMENT_IDENTIFIER]: declarePaymentIdentifierExtension(false) },
  };
}
