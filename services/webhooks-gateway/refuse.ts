import type { IncomingMessage, ServerResponse } from "node:http";
import { isAuthenticated } from "../../shared/http/authenticated.ts";
import { takeArrived } from "../../shared/http/body.ts";
import { addressKey } from "../../shared/http/ip/address.ts";
import { logRefused, sendProblem } from "../../shared/http/problem.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { CODES, type ErrorCode } from "../../shared/platform/errors/codes.ts";
import type { EventCounter } from "../../shared/platform/log/event-counter.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { REJECTED_BODY_BYTES_MAX } from "../../shared/telemetry/rejected/entry.ts";
import type { RecordRejected } from "../../shared/telemetry/rejected/record.ts";
import { reasonOf } from "../../shared/webhook-auth/rejected.ts";
import { fill, RequestValues, toParts } from "../../shared/webhook-auth/template.ts";
import type { CredentialHeaders } from "./authenticate.ts";
import { WrongVerifyToken } from "./handshake.ts";
import type { RateLimits } from "./rate-limit.ts";
import type { Endpoint, Exchange } from "./receive.ts";

type Deps = {
  limits: RateLimits;
  record: RecordRejected;
  log: Logger;
  /** Counts refused credentials of addresses over their limit, which are not logged one by one. */
  overLimit: EventCounter;
  /** Counts other refusals without a log line of their own, so that strangers cannot fill the log. */
  unlogged: EventCounter;
};

/**
 * Creates the function that refuses a webhook and records it in the log, in the metrics, and for `postern rejected`.
 * After too many wrong credentials from an address, its further wrong credentials are only counted. They are answered
 * with 429, or with 401 if the sender does not tolerate 429 (`refusals_limited`).
 *
 * Each refused request with a verified credential gets a log line. A request without one gets a line only if it is also
 * recorded for `postern rejected`, or if the error is unforeseen. All others are only counted, because a stranger could
 * fill the log with a line for each request.
 */
export function createRefuse({ limits, record, log, overLimit, unlogged }: Deps) {
  return async function refuse(exchange: Exchange, error: AppError): Promise<void> {
    const { req, res, endpoint, address } = exchange;
    const { path, answer: ofSender } = endpoint.config;
    const body = await bodyToKeep(exchange);
    const isWrongCredential =
      error.code === "webhook.credential_rejected" || error instanceof WrongVerifyToken;
    const over = isWrongCredential ? await limits.refused(addressKey(address)) : undefined;
    const shown = over === undefined || ofSender.refusals_limited === 401 ? error : over;
    const signatures =
      shown.code === "webhook.credential_rejected" ? endpoint.authentication.headers(req) : undefined;
    if (shown === over) sendProblem(req, res, over);
    else answer(req, res, signatures === undefined ? error : explained(error, signatures), endpoint);
    if (over !== undefined) {
      overLimit.count(`${path} ${shown.code}`, { path, code: shown.code, reason: over.publicDetail });
      return;
    }
    recordAndLog(exchange, error, { signatures, body });
  };

  function recordAndLog(exchange: Exchange, error: AppError, known: Known): void {
    const { req, endpoint, address } = exchange;
    const { path } = endpoint.config;
    const { code, message } = error;
    const isListed = CODES[code].status < 500 || LISTED.includes(code);
    const isRecorded = isListed && recordEntry(exchange, error, known);
    if (isAuthenticated(req) || isRecorded || code === "internal.unexpected") {
      logRefused(log, "webhook.refused", error, { path, address, ms: exchange.ms() });
    } else {
      const reason = code === "webhook.credential_rejected" ? reasonOf(message) : undefined;
      unlogged.count(`${path} ${code} ${reason}`, { path, code, ...(reason && { reason }) });
    }
  }

  /** Records a refusal for `postern rejected`. Returns false if it is not recorded: in a flood, only a sample is. */
  function recordEntry(
    { req, endpoint, address, received }: Exchange,
    { code, message: reason }: AppError,
    known: Known,
  ): boolean {
    const bytes = received?.length;
    const { path, delivery_id } = endpoint.config;
    const describe = () => ({ req, code, reason, bytes, delivery: deliveryIn(req, delivery_id), ...known });
    return record(path, address, describe) !== undefined;
  }
}

/**
 * Errors with a 5xx status whose cause an operator can remove. `postern rejected` lists them together with the
 * refusals.
 */
const LISTED: readonly ErrorCode[] = [
  "webhook.endpoint_disabled",
  "webhook.filter_failed",
  "webhook.keys_unavailable",
];

/**
 * Returns the delivery id if the endpoint reads it only from headers. An id with fields of the body is not read,
 * because the body may be unverified.
 */
function deliveryIn(req: IncomingMessage, deliveryId: string | undefined): string | undefined {
  const template = toParts(deliveryId ?? "");
  if (!template.every(({ kind }) => kind === "header" || kind === "literal")) return undefined;
  const found = fill(template, new RequestValues(req));
  return "value" in found && found.value !== "" ? found.value : undefined;
}

/** Further details of a refused request for its record. */
type Known = { signatures: CredentialHeaders | undefined; body: Buffer | undefined };

/**
 * Returns the bytes of the body that have arrived, if the endpoint keeps the bodies of refused requests. Call it before
 * the answer is sent, because sending discards the bytes that are still unread.
 */
async function bodyToKeep({ req, endpoint, received, beginning }: Exchange): Promise<Buffer | undefined> {
  if (!endpoint.config.keep_rejected_bodies) return undefined;
  if (received !== undefined || beginning !== undefined) return received ?? beginning;
  // Bytes that arrived together with the headers are readable only after the current tick.
  await new Promise((resolve) => process.nextTick(resolve));
  return takeArrived(req, REJECTED_BODY_BYTES_MAX);
}

/**
 * Sends a problem document. A 401 has the endpoint's challenge in `WWW-Authenticate`. A request over a rate limit gets
 * the status that the endpoint configures, because some senders do not retry after a 429.
 */
function answer(req: IncomingMessage, res: ServerResponse, error: AppError, { config }: Endpoint): void {
  switch (error.code) {
    case "webhook.credential_rejected":
      sendProblem(req, res, error, { headers: { "WWW-Authenticate": config.proof.challenge } });
      return;
    case "request.rate_limited":
      sendProblem(req, res, error, { status: config.answer.limited });
      return;
    default:
      sendProblem(req, res, error);
  }
}

/** Tells the sender which headers the endpoint expects and which arrived, but not why the credential is wrong. */
function explained(error: AppError, { wanted, isOneEnough, came }: CredentialHeaders): AppError {
  const found = wanted.filter((name) => came.includes(name));
  const isThere = found.length > 0 && (isOneEnough || found.length === wanted.length);
  const read = `${isOneEnough ? "one of " : ""}${nameList(wanted)}`;
  const publicDetail = isThere
    ? `the credential in ${nameList(found)} is not valid`
    : `no complete credential: this endpoint reads it from ${read}; the request has ${nameList(came)}`;
  return new AppError(error.code, { reason: error.message, publicDetail });
}

const NAMES_SHOWN = 8;

function nameList(names: readonly string[]): string {
  if (names.length === 0) return "none";
  const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
  return names.slice(0, NAMES_SHOWN).join(", ") + more;
}
