import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError } from "../../shared/errors/app-error.ts";
import { CODES } from "../../shared/errors/codes.ts";
import type { RateLimits } from "../../shared/gateway/rate-limit.ts";
import { logRefused, sendProblem } from "../../shared/http/problem.ts";
import { addressKey } from "../../shared/ip/address.ts";
import type { EventCounter } from "../../shared/log/event-counter.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { RecordRejected } from "../../shared/rejected/record.ts";
import type { Endpoint, Exchange, Refuse } from "./receive.ts";

type Deps = {
  limits: RateLimits;
  record: RecordRejected;
  log: Logger;
  /** Counts refusals over the limit, which are not logged one by one. */
  overLimit: EventCounter;
};

/**
 * Answers a webhook that is refused, and leaves a trace of it: in the log, in the metrics, and for `postern rejected`. An
 * address with too many refused credentials gets 429, and leaves only a count.
 */
export function createRefuse({ limits, record, log, overLimit }: Deps): Refuse {
  return async function refuse(exchange, error) {
    const { req, res, endpoint } = exchange;
    const { path } = endpoint.config;
    const address = exchange.address();
    if (error.code === "webhook.credential_rejected") {
      const over = await limits.refused(addressKey(address));
      if (over !== undefined) {
        answer(req, res, over, endpoint);
        overLimit.count(path, { path, code: over.code });
        return;
      }
    }
    answer(req, res, error, endpoint);
    logRefused(log, "webhook.refused", error, { path, address, ms: exchange.ms() });
    if (CODES[error.code].status < 500) leaveTrace(exchange, error);
  };

  function leaveTrace({ req, endpoint, address, received }: Exchange, error: AppError): void {
    const { config, credential } = endpoint;
    const isCredential = error.code === "webhook.credential_rejected";
    record(config.path, () => ({
      req,
      address: address(),
      code: error.code,
      reason: error.message,
      signatures: isCredential ? credential.headers(req) : undefined,
      bytes: received?.length,
      body: config.keep_rejected_bodies ? received : undefined,
    }));
  }
}

/** A problem document, with what its status asks for: the challenge, the methods, or what makes this sender come again. */
function answer(
  req: IncomingMessage,
  res: ServerResponse,
  error: AppError,
  { config, credential }: Endpoint,
): void {
  switch (error.code) {
    case "webhook.credential_rejected":
      sendProblem(req, res, explained(error, credential.headers(req)), {
        headers: { "WWW-Authenticate": credential.challenge },
      });
      return;
    case "request.method_not_allowed": {
      const methods = [...config.methods, ...config.handshakes.map(({ method }) => method)];
      sendProblem(req, res, error, { headers: { Allow: [...new Set(methods)].join(", ") } });
      return;
    }
    case "request.rate_limited":
      sendProblem(req, res, error, { status: config.answer.limited });
      return;
    default:
      sendProblem(req, res, error);
  }
}

/** Tells the sender which headers were wanted and which came, but not what was wrong with them. */
function explained(
  error: AppError,
  { wanted, came }: Record<"wanted" | "came", readonly string[]>,
): AppError {
  const publicDetail = `unauthorized; headers wanted: ${few(wanted)}; came: ${few(came)}`;
  return new AppError(error.code, { reason: error.message, publicDetail });
}

const NAMES_SHOWN = 8;

function few(names: readonly string[]): string {
  if (names.length === 0) return "none";
  const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
  return names.slice(0, NAMES_SHOWN).join(", ") + more;
}
