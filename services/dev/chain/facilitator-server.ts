import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { toHex } from "../../../shared/chain/encoding.ts";
import { readBody } from "../../../shared/http/body.ts";
import { bareApp, serve } from "../../../shared/http/ops.ts";
import { AppError, messageOf } from "../../../shared/platform/errors/app-error.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import { describeRequest } from "./exact-payment.ts";
import type { Facilitator, FacilitatorRequest } from "./facilitator.ts";
import type { Fault, Faults, Operation } from "./faults.ts";

type JsonResponse = { status: number; body: object };

/**
 * Creates the HTTP API of an x402 facilitator. It counts each request, and answers it with a fault if one was requested
 * at the control port (faults.ts).
 */
export function createFacilitatorHandler(
  facilitator: Facilitator,
  faults: Faults,
  counter: Counter,
): RequestListener {
  const handle = (on: Operation) => async (req: IncomingMessage, res: ServerResponse) => {
    const request = (await readJson(req, res)) as FacilitatorRequest;
    counter.take({ on, ...describeRequest(request), headers: req.headers });
    const { cleared } = faults;
    const fault = faults.take(on);
    if (fault === undefined) {
      sendJson(res, await perform(on, request));
      return;
    }
    await delay(fault.delayMs, cleared).catch(() => {});
    const performed = fault.acts ? await perform(on, request) : undefined;
    await delay(fault.replyDelayMs, cleared).catch(() => {});
    await sendFault(res, fault, request, performed);
  };

  /** Has the x402 SDK perform a request. If the SDK throws, the answer is 500, as in x402's reference server. */
  async function perform(on: Operation, request: FacilitatorRequest): Promise<JsonResponse> {
    try {
      return { status: 200, body: await facilitator[on](request) };
    } catch (error) {
      return { status: 500, body: { error: messageOf(error) } };
    }
  }

  /** Answers the request as the fault says. `performed` is the SDK's response, if it performed the request nevertheless. */
  async function sendFault(
    res: ServerResponse,
    fault: Fault,
    request: FacilitatorRequest,
    performed: JsonResponse | undefined,
  ): Promise<void> {
    switch (fault.kind) {
      case "slow":
        return sendJson(res, performed ?? { status: 500, body: { error: "nothing was done" } });
      case "drop":
        res.socket?.destroy();
        return;
      case "status":
        return sendStatus(res, fault);
      case "not_json":
        return send(res, 200, "text/html", "<html><body>Welcome</body></html>");
      case "refuse":
        return sendJson(res, { status: 200, body: refused(fault.on, fault.reason, request) });
      case "accept":
        return sendJson(res, { status: 200, body: accepted(fault, request, performed) });
      case "pending":
        return sendJson(res, {
          status: 200,
          body: await facilitator.settleLater(request, fault.landsAfterMs),
        });
      case "redirect":
        return send(res, fault.status, "text/plain", "", { Location: fault.location });
      case "huge":
        return sendHuge(res, fault.bytes);
    }
  }

  const app = bareApp();
  app.get("/supported", handle("supported"));
  app.post("/verify", handle("verify"));
  app.post("/settle", handle("settle"));
  app.use("/redirected", (_req, res) => {
    counter.count("redirected");
    res.json({});
  });
  return serve(app);
}

function refused(on: Operation, reason: string, request: FacilitatorRequest): object {
  const { payer } = describeRequest(request);
  if (on === "verify") return { isValid: false, invalidReason: reason, payer };
  const { network } = request.paymentRequirements;
  return { success: false, errorReason: reason, transaction: "", network, payer };
}

/**
 * Returns an answer that accepts the payment, even if the facilitator did not perform the request. For a settle request,
 * it names the fault's transaction. If the fault has none, it names the one that the facilitator has made. If it has
 * made none either, it names a transaction that does not exist.
 */
function accepted(
  { on, transaction }: Extract<Fault, { kind: "accept" }>,
  request: FacilitatorRequest,
  performed: JsonResponse | undefined,
): object {
  const { payer } = describeRequest(request);
  if (on === "verify") return { isValid: true, payer };
  const { transaction: made } = (performed?.body ?? {}) as { transaction?: string };
  const { network } = request.paymentRequirements;
  return { success: true, transaction: transaction ?? (made || toHex(randomBytes(32))), network, payer };
}

function sendStatus(res: ServerResponse, fault: Extract<Fault, { kind: "status" }>): void {
  const { status, body, retryAfterSecs } = fault;
  const headers = retryAfterSecs === undefined ? {} : { "Retry-After": retryAfterSecs };
  send(res, status, isJson(body) ? "application/json" : "text/plain", body, headers);
}

function sendJson(res: ServerResponse, { status, body }: JsonResponse): void {
  send(res, status, "application/json", JSON.stringify(body));
}

function send(
  res: ServerResponse,
  status: number,
  contentType: string,
  text: string,
  headers: Readonly<Record<string, string | number>> = {},
): void {
  res.writeHead(status, {
    "Content-Type": contentType,
    "Content-Length": Buffer.byteLength(text),
    ...headers,
  });
  res.end(text);
}

const CHUNK = Buffer.alloc(64 * 1024, "a");

/** Sends a JSON body of this size. If the client disconnects before its end, stops without an error. */
async function sendHuge(res: ServerResponse, bytes: number): Promise<void> {
  res.writeHead(200, { "Content-Type": "application/json" });
  await pipeline(hugeJson(bytes), res).catch(() => {});
}

function* hugeJson(bytes: number): Generator<Buffer> {
  yield Buffer.from('{"isValid":true,"success":true,"padding":"');
  for (let sent = 0; sent < bytes; sent += CHUNK.length) yield CHUNK;
  yield Buffer.from('"}');
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** A request that the facilitator has received, with facts about its payment. */
type ReceivedRequest = {
  on: Operation;
  /** Address of the payer in lower case. Undefined if the request has no payment. */
  payer: string | undefined;
  /** Nonce of the payment: 32 bytes in lower-case hex, in a payment by EIP-3009 and in one by Permit2. */
  nonce: string | undefined;
  x402Version: number | undefined;
  headers: IncomingHttpHeaders;
};

export type Received = {
  supported: number;
  verify: number;
  settle: number;
  /** Number of requests at the target of the fault `redirect`, from clients that followed the redirect. */
  redirected: number;
  /** Received requests, the oldest first. If there are very many, at least the newest 10,000 are kept. */
  requests: readonly ReceivedRequest[];
};

const KEPT_MAX = 10_000;

/** Counts the requests to the facilitator when they arrive, so that requests which then get a fault count too. */
export class Counter {
  #counts = zeroCounts();
  #requests: ReceivedRequest[] = [];

  count(what: keyof ReturnType<typeof zeroCounts>): void {
    this.#counts[what] += 1;
  }

  take(request: ReceivedRequest): void {
    this.count(request.on);
    this.#requests.push(request);
    if (this.#requests.length >= 2 * KEPT_MAX) this.#requests.splice(0, KEPT_MAX);
  }

  read(): Received {
    return { ...this.#counts, requests: this.#requests };
  }

  reset(): void {
    this.#counts = zeroCounts();
    this.#requests = [];
  }
}

const zeroCounts = () => ({ supported: 0, verify: 0, settle: 0, redirected: 0 });

const BODY_BYTES_MAX = 1024 * 1024;

/** Reads a request's body as JSON; returns undefined if the body is empty. Throws `request.malformed`. */
export async function readJson(req: IncomingMessage, res: ServerResponse): Promise<unknown> {
  const body = await readBody(req, res, BODY_BYTES_MAX);
  if (body.length === 0) return undefined;
  try {
    return JSON.parse(body.toString("utf8"));
  } catch (cause) {
    throw AppError.public("request.malformed", "the body must be JSON", { cause });
  }
}
