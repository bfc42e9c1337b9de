import type { IncomingMessage, ServerResponse } from "node:http";
import type { JobCall } from "../../shared/call/job-call.ts";
import { jobKeyOf } from "../../shared/call/job-ids.ts";
import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import { COMMON_HEADERS } from "../../shared/http/answer.ts";
import { leaveUnread } from "../../shared/http/body.ts";
import type { BodyBudget } from "../../shared/http/body-budget.ts";
import type { ClientAddressOf } from "../../shared/http/client-address.ts";
import { addressKey } from "../../shared/http/ip/address.ts";
import type { AddressList } from "../../shared/http/ip/address-list.ts";
import { methodNotAllowed } from "../../shared/http/router.ts";
import type { Admission } from "../../shared/ingress/admission.ts";
import type { ResultAccess } from "../../shared/ingress/ask-result.ts";
import type { AwaitResults, Waiting } from "../../shared/ingress/await-result.ts";
import type { AdmitReceiver } from "../../shared/ingress/named-receivers.ts";
import { sendResult } from "../../shared/ingress/send-result.ts";
import { AppError, toAppError } from "../../shared/platform/errors/app-error.ts";
import { failpoint } from "../../shared/platform/lifecycle/failpoint.ts";
import type { EventCounter } from "../../shared/platform/log/event-counter.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { traceFields } from "../../shared/platform/text/trace-id.ts";
import { visible } from "../../shared/platform/text/visible.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import type { Accept, Accepted } from "./accept.ts";
import type { Authentication } from "./authenticate.ts";
import type { HeldAtOf } from "./endpoint-states.ts";
import type { HandshakeAnswer, Handshakes } from "./handshake.ts";
import type { Dropped, MadeCall, MakeCall } from "./make-call.ts";
import type { TakeToken } from "./rate-limit.ts";

/** An endpoint with the parts that were created from its configuration. */
export type Endpoint = {
  config: EndpointToml;
  /** Addresses that may send; undefined allows all. */
  allowed: AddressList | undefined;
  /** Undefined if the endpoint has no handshakes. */
  handshakes: Handshakes | undefined;
  authentication: Authentication;
  makeCall: MakeCall;
  /** Undefined if the endpoint has no rate limits. */
  takeToken: TakeToken | undefined;
  /** Returns the token and URL of a call's result, for the 202. Undefined if the endpoint keeps no results. */
  accessOf: ((callId: string) => ResultAccess) | undefined;
  /**
   * Time in ms for which the gateway may delay its answer until the call has a result. Undefined if it answers at once.
   */
  waitMs: number | undefined;
  /** Time in ms for which a delivery id is remembered after its call has ended. */
  windowMs: number;
};

/** One request and its answer. */
export type Exchange = {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly endpoint: Endpoint;
  /** Client address. */
  readonly address: string;
  /** The whole body as received. */
  received?: Buffer;
  /**
   * First bytes of the body, copied while it arrives. Undefined unless the endpoint keeps the bodies of refused
   * requests.
   */
  beginning?: Buffer;
  /** Returns the time in ms since the request began. */
  ms(): number;
};

type Deps = {
  admission: Admission;
  admitReceiver: AdmitReceiver;
  bodies: BodyBudget;
  accept: Accept;
  heldAtOf: HeldAtOf;
  /** Refuses a webhook. */
  refuse: (exchange: Exchange, error: AppError) => Promise<void>;
  waits: Pick<AwaitResults, "begin">;
  addressOf: ClientAddressOf;
  /**
   * Counts answered handshakes that need no proof. Each gets no log line of its own, because a stranger could fill the
   * log with them.
   */
  openHandshakes: EventCounter;
  clock: Clock;
  log: Logger;
};

export type Receive = (req: IncomingMessage, res: ServerResponse, endpoint: Endpoint) => Promise<void>;

/** Handles one webhook from its first header to the answer. It refuses as much as possible before it reads the body. */
export function createReceive(deps: Deps): Receive {
  const { admission, admitReceiver, bodies, accept, refuse, waits, addressOf, openHandshakes, clock, log } =
    deps;
  return async function receive(req, res, endpoint) {
    const startedAt = clock();
    const address = addressOf(req); // read now, because a closed connection has no address
    const exchange: Exchange = { req, res, endpoint, address, ms: () => clock() - startedAt };
    const { config, handshakes, authentication, takeToken, makeCall, windowMs } = endpoint;
    const lease = bodies.lease(req);
    try {
      if (endpoint.allowed !== undefined) assertAllowed(endpoint.allowed, address);
      const unsignedAnswer = handshakes && (await handshakes.answerUnsigned(exchange, lease));
      if (unsignedAnswer !== undefined) return finishHandshake(exchange, unsignedAnswer);

      assertMethod(req, res, config);
      admission.assertOpen();
      const values = await authentication.readVerified(exchange, lease);
      const signedAnswer = await handshakes?.answerSigned(req, values);
      if (signedAnswer !== undefined) return finishHandshake(exchange, signedAnswer);

      // An operator may hold or disable an endpoint. This setting is read only now, after the check of the credential,
      // so that a client without a credential learns nothing about it.
      const heldAt = deps.heldAtOf(config.path);
      if (takeToken !== undefined) await takeToken(addressKey(address));
      const made = makeCall(req, values);
      if ("dropped" in made) return finishDropped(exchange, made.dropped);
      await admit(config, made);
      const { call, repeat, noId } = made;
      const accepted = await accept(call, { repeat: repeat && { ...repeat, windowMs }, heldAt });
      finishAccepted(exchange, call, accepted, noId);
    } catch (thrown) {
      await refuse(exchange, toAppError(thrown));
    } finally {
      lease.release();
    }
  };

  /** Throws unless the gateway now accepts calls of this job, and callbacks to the receiver that the request names. */
  async function admit({ path }: EndpointToml, { call, receiverByWildcard }: MadeCall): Promise<void> {
    const job = jobKeyOf(call);
    admission.assertOpen(job, call.id);
    if (receiverByWildcard) await admitReceiver(call.id, `endpoint:${path}`, job, receiverByWildcard);
  }

  /**
   * Answers a request whose call is on disk. If the sender waits for the result, the answer is sent later. A repeat
   * gets the call's state and the header `Idempotent-Replayed`.
   */
  function finishAccepted(exchange: Exchange, call: JobCall, accepted: Accepted, noId?: string): void {
    const { endpoint, ms } = exchange;
    const { config, accessOf, waitMs } = endpoint;
    const { status, replayed, jobId, addMs } = accepted;
    const access = accessOf === undefined ? "" : `,${JSON.stringify(accessOf(call.id)).slice(1, -1)}`;
    const body = `{"status":"${status}","job_id":${jobId},"call_id":"${call.id}"${access}}`;
    if (waitMs === undefined || !waits.begin(toWaiting(exchange, call.id, body, replayed)))
      sendSuccess(exchange.res, config, body, replayed);
    failpoint("gateway.after_answer");
    log.info("webhook.accepted", {
      callId: call.id,
      path: config.path,
      jobId,
      ...{ bytes: call.bytes, ...traceFields(call.traceparent) },
      replayed,
      ...(noId !== undefined && { noId }),
      ...{ addMs, ms: ms() },
    });
  }

  /**
   * Answers an event that the endpoint does not handle. The sender gets a 2xx status, so that it does not send the event
   * again.
   */
  function finishDropped({ res, endpoint: { config }, ms }: Exchange, { event, by }: Dropped): void {
    sendSuccess(res, config, '{"status":"dropped"}', false);
    log.info("webhook.dropped", { path: config.path, eventType: visible(event), by, ms: ms() });
  }

  function finishHandshake({ req, res, endpoint, ms }: Exchange, answer: HandshakeAnswer): void {
    const { status, headers, body, needsNoProof } = answer;
    leaveUnread(req, res);
    const length = status === 204 ? {} : { "Content-Length": Buffer.byteLength(body) };
    res.writeHead(status, { ...COMMON_HEADERS, ...headers, ...length });
    res.end(req.method === "HEAD" ? "" : body);
    const { path } = endpoint.config;
    if (needsNoProof) openHandshakes.count(`${path} ${status}`, { path, status });
    else log.info("webhook.handshake_answered", { path, status, ms: ms() });
  }
}

function assertAllowed(allowed: AddressList, address: string): void {
  if (allowed.matches(address)) return;
  throw new AppError("request.address_refused", { reason: `${address} is not in allow_ips` });
}

function assertMethod(
  req: IncomingMessage,
  res: ServerResponse,
  { methods, handshakes }: EndpointToml,
): void {
  if ((methods as readonly unknown[]).includes(req.method)) return;
  const accepted = new Set([...methods, ...handshakes.map(({ method }) => method)]);
  throw methodNotAllowed(req, res, [...accepted]);
}

/**
 * Describes how a sender waits for its call's result. `accepted` is the body of the answer if no result comes in time.
 * The returned object must not refer to the request's body, because the body would then stay in memory during the wait.
 */
function toWaiting(
  { res, endpoint: { config, waitMs = 0 }, ms }: Exchange,
  callId: string,
  accepted: string,
  replayed: boolean,
): Waiting {
  const headers: Record<string, string> = replayed ? { "Idempotent-Replayed": "true" } : {};
  return {
    res,
    callId,
    ms: waitMs - ms(),
    answer(outcome) {
      if (outcome === undefined) sendSuccess(res, config, accepted, replayed);
      else sendResult(res.req, res, outcome, headers);
    },
  };
}

/**
 * Headers as flat lists of names and values, which Node writes unchanged. Creating an object of headers for each answer
 * is much slower.
 */
const COMMON = Object.entries(COMMON_HEADERS).flat();
const OUR_JSON = [...COMMON, "Content-Type", "application/json"];

/** Sends the status and body that the endpoint configures for a success. `ours` is the default body. */
function sendSuccess(res: ServerResponse, { answer }: EndpointToml, ours: string, replayed: boolean): void {
  const { status, content_type } = answer;
  const body = status === 204 ? "" : (answer.body ?? ours);
  const isOurs = body === ours && content_type === undefined;
  const headers: (string | number)[] = isOurs ? [...OUR_JSON] : [...COMMON];
  if (content_type !== undefined) headers.push("Content-Type", content_type);
  if (status !== 204) headers.push("Content-Length", Buffer.byteLength(body));
  if (replayed) headers.push("Idempotent-Replayed", "true");
  res.writeHead(status, headers);
  res.end(body);
}
