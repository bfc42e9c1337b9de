import type { IncomingMessage, ServerResponse } from "node:http";
import { isAuthenticated } from "../../shared/http/authenticated.ts";
import { takeArrived } from "../../shared/http/body.ts";
import { addressKey } from "../../shared/http/ip/address.ts";
import { logRefused, sendProblem } from "../../shared/http/problem.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { CODES } from "../../shared/platform/errors/codes.ts";
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
  /** Counts refusals over the limit, which are not logged one by one. */
  overLimit: EventCounter;
  /** Counts the other refusals that are not logged one by one. */
  unlogged: EventCounter;
};

/**
 * Answers a webhook that is refused, and leaves a trace of it: in the log, in the metrics, and for `postern rejected`. An
 * address with too many refused credentials gets 429, if its sender bears that, and leaves only a count.
 *
 * A request that has proven nothing is logged only if it is recorded too, and else counted: a stranger could fill the log.
 */
export function createRefuse({ limits, record, log, overLimit, unlogged }: Deps) {
  return async function refuse(exchange: Exchange, error: AppError): Promise<void> {
    const { req, res, endpoint, address } = exchange;
    const { path, answer: ofSender } = endpoint.config;
    const body = await bodyToKeep(exchange);
    const isWrongCredential =
      error.code === "webhook.credential_rejected" || error instanceof WrongVerifyToken;
    const over = isWrongCredential ? await limits.refused(addressKey(address)) : undefined;
    const told = over === undefined || ofSender.refusals_limited === 401 ? error : over;
    const signatures =
      told.code === "webhook.credential_rejected" ? endpoint.authentication.headers(req) : undefined;
    if (told === over) sendProblem(req, res, over);
    else answer(req, res, signatures === undefined ? error : explained(error, signatures), endpoint);
    if (over !== undefined) {
      overLimit.count(`${path} ${told.code}`, { path, code: told.code, reason: over.publicDetail });
      return;
    }
    leaveTrace(exchange, error, { signatures, body });
  };

  function leaveTrace(exchange: Exchange, error: AppError, known: Known): void {
    const { req, endpoint, address } = exchange;
    const { path } = endpoint.config;
    const { code, message } = error;
    const isListed = CODES[code].status < 500 || code === "webhook.endpoint_disabled";
    const isRecorded = isListed && leaveEntry(exchange, error, known);
    if (isAuthenticated(req) || isRecorded || code === "internal.unexpected") {
      logRefused(log, "webhook.refused", error, { path, address, ms: exchange.ms() });
    } else {
      const reason = code === "webhook.credential_rejected" ? reasonOf(message) : undefined;
      unlogged.count(`${path} ${code} ${reason}`, { path, code, ...(reason && { reason }) });
    }
  }

  /** Returns whether it is recorded, or left out. */
  function leaveEntry(
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

/** The delivery id, if it consists of headers. Fields are left out: the body may have proven nothing, and is not parsed for this. */
function deliveryIn(req: IncomingMessage, deliveryId: string | undefined): string | undefined {
  const template = toParts(deliveryId ?? "");
  if (!template.every(({ kind }) => kind === "header" || kind === "literal")) return undefined;
  const found = fill(template, new RequestValues(req));
  return "value" in found && found.value !== "" ? found.value : undefined;
}

/** Details of a request for the entry of its refusal. */
type Known = { signatures: CredentialHeaders | undefined; body: Buffer | undefined };

/**
 * The body as far as it has arrived, if the endpoint keeps the bodies that it refuses. Call it before the answer, which discards bytes
 * that are still unread.
 */
async function bodyToKeep({ req, endpoint, received, beginning }: Exchange): Promise<Buffer | undefined> {
  if (!endpoint.config.keep_rejected_bodies) return undefined;
  if (received !== undefined || beginning !== undefined) return received ?? beginning;
  // Bytes that came in one piece with the headers are in the stream only after the turn in which the request began.
  await new Promise((resolve) => process.nextTick(resolve));
  return takeArrived(req, REJECTED_BODY_BYTES_MAX);
}

/** A problem document, with what its status asks for: the challenge, or what makes this sender come again. */
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

/** Tells the sender which headers were wanted and which came, but not what was wrong with them. */
function explained(error: AppError, { wanted, isOneEnough, came }: CredentialHeaders): AppError {
  const found = wanted.filter((name) => came.includes(name));
  const isThere = found.length > 0 && (isOneEnough || found.length === wanted.length);
  const read = `${isOneEnough ? "one of " : ""}${few(wanted)}`;
  const publicDetail = isThere
    ? `the credential in ${few(found)} is not valid`
    : `no complete credential: this endpoint reads it from ${read}; the request has ${few(came)}`;
  return new AppError(error.code, { reason: error.message, publicDetail });
}

const NAMES_SHOWN = 8;

function few(names: readonly string[]): string {
  if (names.length === 0) return "none";
  const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
  return names.slice(0, NAMES_SHOWN).join(", ") + more;
}
