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
import type { MadeCall, MakeCall } from "./make-call.ts";
import type { TakeToken } from "./rate-limit.ts";

/** A configured endpoint and what was made of its configuration. */
export type Endpoint = {
  config: EndpointToml;
  /** Senders whose address may send; undefined if all may. */
  allowed: AddressList | undefined;
  /** Undefined if its sender makes none. */
  handshakes: Handshakes | undefined;
  authentication: Authentication;
  makeCall: MakeCall;
  /** Undefined without limits. */
  takeToken: TakeToken | undefined;
  /** What its 202 says of the way to the result; undefined if it keeps none. */
  accessOf: ((callId: string) => ResultAccess) | undefined;
  /** How long its sender waits for the result; undefined if it is answered at once. */
  waitMs: number | undefined;
  /** How long a delivery id is remembered after its call has ended. */
  windowMs: number;
};

/** One request and its answer. */
export type Exchange = {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly endpoint: Endpoint;
  /** The client's. */
  readonly address: string;
  /** The body as received, once it is whole. */
  received?: Buffer;
  /** The beginning of a body that is being read, if the endpoint keeps the bodies that it refuses. */
  beginning?: Buffer;
  /** How long the request has taken so far. */
  ms(): number;
};

type Deps = {
  admission: Admission;
  admitReceiver: AdmitReceiver;
  bodies: BodyBudget;
  accept: Accept;
  heldAtOf: HeldAtOf;
  /** Answers a webhook that is refused. */
  refuse: (exchange: Exchange, error: AppError) => Promise<void>;
  waits: Pick<AwaitResults, "begin">;
  addressOf: ClientAddressOf;
  /** Counts answered handshakes that need no proof: with a line for each, a stranger could fill the log. */
  openHandshakes: EventCounter;
  clock: Clock;
  log: Logger;
};

export type Receive = (req: IncomingMessage, res: ServerResponse, endpoint: Endpoint) => Promise<void>;

/** One webhook, top to bottom. What can be refused early is refused before the body is read. */
export function createReceive(deps: Deps): Receive {
  const { admission, admitReceiver, bodies, accept, refuse, waits, addressOf, openHandshakes, clock, log } =
    deps;
  return async function receive(req, res, endpoint) {
    const startedAt = clock();
    const address = addressOf(req); // a connection that is gone has none
    const exchange: Exchange = { req, res, endpoint, address, ms: () => clock() - startedAt };
    const { config, handshakes, authentication, takeToken, makeCall, windowMs } = endpoint;
    const lease = bodies.lease(req);
    try {
      if (endpoint.allowed !== undefined) assertAllowed(endpoint.allowed, address);
      const setUp = handshakes && (await handshakes.answerUnsigned(exchange, lease));
      if (setUp !== undefined) return finishHandshake(exchange, setUp);

      assertMethod(req, res, config);
      admission.assertOpen();
      const values = await authentication.readProven(exchange, lease);
      const signedSetUp = handshakes?.answerSigned(req, values);
      if (signedSetUp !== undefined) return finishHandshake(exchange, signedSetUp);

      // Only now: a sender without the credential learns nothing of what operators do.
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

  /** Throws if calls of this job, or callbacks to the receiver that the request names, are not taken now. */
  async function admit({ path }: EndpointToml, { call, receiverByWildcard }: MadeCall): Promise<void> {
    const job = jobKeyOf(call);
    admission.assertOpen(job, call.id);
    if (receiverByWildcard) await admitReceiver(call.id, `endpoint:${path}`, job, receiverByWildcard);
  }

  /** The call is on disk. A repeat is told so, and in which state the call is. */
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

  /** The endpoint has no job for this event. Its sender gets a success, so that it does not send the event again. */
  function finishDropped({ res, endpoint: { config }, ms }: Exchange, event: string): void {
    sendSuccess(res, config, '{"status":"dropped"}', false);
    log.info("webhook.dropped", { path: config.path, eventType: visible(event), ms: ms() });
  }

  function finishHandshake({ req, res, endpoint, ms }: Exchange, answer: HandshakeAnswer): void {
    const { status, headers, body, isForAnybody } = answer;
    leaveUnread(req, res);
    const length = status === 204 ? {} : { "Content-Length": Buffer.byteLength(body) };
    res.writeHead(status, { ...COMMON_HEADERS, ...headers, ...length });
    res.end(req.method === "HEAD" ? "" : body);
    const { path } = endpoint.config;
    if (isForAnybody) openHandshakes.count(`${path} ${status}`, { path, status });
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

/** A sender that waits for what its call comes to. Nothing of its request's body is part of it. */
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

/** Flat lists, which Node writes out unchanged: an object of headers made for each answer costs far more. */
const COMMON = Object.entries(COMMON_HEADERS).flat();
const OUR_JSON = [...COMMON, "Content-Type", "application/json"];

/** The status and body that this sender takes for a success; without others, ours. */
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
