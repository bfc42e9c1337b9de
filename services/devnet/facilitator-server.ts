import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import { toHex } from "../../shared/ethereum/hex.ts";
import { bareApp, serve } from "../../shared/http/ops.ts";
import { readBody } from "../../shared/http/read-body.ts";
import { delay } from "../../shared/time/clock.ts";
import { describeRequest, type Facilitator, type FacilitatorRequest } from "./facilitator.ts";
import type { Fault, Faults, Operation } from "./faults.ts";

type Deps = { facilitator: Facilitator; faults: Faults; counter: Counter };

/** The HTTP API of an x402 facilitator, with the faults that are ordered. */
export function createFacilitatorHandler({ facilitator, faults, counter }: Deps): RequestListener {
  const handle = (on: Operation) => async (req: IncomingMessage, res: ServerResponse) => {
    const request = (await readJson(req, res)) as FacilitatorRequest;
    counter.take({ on, ...describeRequest(request), headers: req.headers });
    const fault = faults.take(on);
    if (fault === undefined) {
      sendAnswer(res, await trueAnswer(facilitator, on, request));
      return;
    }
    await delay(fault.delayMs);
    let truth: Answer | undefined;
    if (fault.acts) truth = await trueAnswer(facilitator, on, request);
    await delay(fault.replyDelayMs);
    await sendFault(res, fault, { facilitator, request, truth });
  };

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

export type Answer = { status: number; body: object };

/** What the facilitator answers when nothing is wrong with it: 500 when the SDK throws, as the reference server does. */
export async function trueAnswer(
  facilitator: Facilitator,
  on: Operation,
  request: FacilitatorRequest,
): Promise<Answer> {
  try {
    return { status: 200, body: await facilitator[on](request) };
  } catch (error) {
    return { status: 500, body: { error: messageOf(error) } };
  }
}

export function sendAnswer(res: ServerResponse, { status, body }: Answer): void {
  send(res, { status, contentType: "application/json", text: JSON.stringify(body) });
}

export type Plain = {
  status: number;
  contentType: string;
  text: string;
  headers?: Readonly<Record<string, string | number>>;
};

export function send(res: ServerResponse, { status, contentType, text, headers = {} }: Plain): void {
  res.writeHead(status, {
    "Content-Type": contentType,
    "Content-Length": Buffer.byteLength(text),
    ...headers,
  });
  res.end(text);
}

type Exchange = {
  facilitator: Facilitator;
  request: FacilitatorRequest;
  /** What came of it, where the real thing was done. */
  truth: Answer | undefined;
};

/** Answers a request as the fault says. */
export async function sendFault(res: ServerResponse, fault: Fault, exchange: Exchange): Promise<void> {
  const { facilitator, request, truth } = exchange;
  switch (fault.kind) {
    case "slow":
      return sendAnswer(res, truth ?? { status: 500, body: { error: "nothing was done" } });
    case "drop":
      res.socket?.destroy();
      return;
    case "status":
      return sendStatus(res, fault);
    case "not_json":
      return send(res, { status: 200, contentType: "text/html", text: "<html><body>Welcome</body></html>" });
    case "refuse":
      return sendAnswer(res, { status: 200, body: refused(fault, request) });
    case "accept":
      return sendAnswer(res, { status: 200, body: accepted(fault, request) });
    case "pending":
      return sendAnswer(res, {
        status: 200,
        body: await facilitator.settleLater(request, fault.landsAfterMs),
      });
    case "redirect": {
      const { status, location } = fault;
      return send(res, { status, contentType: "text/plain", text: "", headers: { Location: location } });
    }
    case "huge":
      return sendHuge(res, fault.bytes);
  }
}

function sendStatus(res: ServerResponse, fault: Extract<Fault, { kind: "status" }>): void {
  const { status, body: text, retryAfterSecs } = fault;
  const headers = retryAfterSecs === undefined ? {} : { "Retry-After": retryAfterSecs };
  send(res, { status, contentType: isJson(text) ? "application/json" : "text/plain", text, headers });
}

function refused({ on, reason }: Extract<Fault, { kind: "refuse" }>, request: FacilitatorRequest): object {
  const { payer } = describeRequest(request);
  if (on === "verify") return { isValid: false, invalidReason: reason, payer };
  const network = request.paymentRequirements.network;
  return { success: false, errorReason: reason, transaction: "", network, payer };
}

function accepted({ on }: Fault, request: FacilitatorRequest): object {
  const { payer } = describeRequest(request);
  if (on === "verify") return { isValid: true, payer };
  const transaction = toHex(randomBytes(32));
  return { success: true, transaction, network: request.paymentRequirements.network, payer };
}

const CHUNK = Buffer.alloc(64 * 1024, "a");

/** Ends early, without complaint, where the client has had enough. */
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

/** A request to verify or settle, as it came. */
export type ReceivedRequest = {
  on: Operation;
  /** Lower-case; undefined where the request has no EIP-3009 authorization. */
  payer: string | undefined;
  nonce: string | undefined;
  x402Version: number | undefined;
  headers: IncomingHttpHeaders;
};

export type Received = {
  supported: number;
  verify: number;
  settle: number;
  /** Requests that followed a redirect given on command. */
  redirected: number;
  /** Those to verify and settle, oldest first: the newest some thousand. */
  requests: readonly ReceivedRequest[];
};

const KEPT = 10_000;

/** Counts what the facilitator receives, before it does anything with it. */
export class Counter {
  #counts = nothing();
  #requests: ReceivedRequest[] = [];

  count(what: keyof ReturnType<typeof nothing>): void {
    this.#counts[what] += 1;
  }

  take(request: ReceivedRequest): void {
    this.count(request.on);
    this.#requests.push(request);
    if (this.#requests.length >= 2 * KEPT) this.#requests.splice(0, KEPT);
  }

  read(): Received {
    return { ...this.#counts, requests: this.#requests };
  }

  reset(): void {
    this.#counts = nothing();
    this.#requests = [];
  }
}

const nothing = () => ({ supported: 0, verify: 0, settle: 0, redirected: 0 });

const BODY_BYTES_MAX = 1024 * 1024;

/** The JSON of a request's body; an empty body is undefined. Throws `request.malformed`. */
export async function readJson(req: IncomingMessage, res: ServerResponse): Promise<unknown> {
  const body = await readBody(req, res, BODY_BYTES_MAX);
  if (body.length === 0) return undefined;
  try {
    return JSON.parse(body.toString("utf8"));
  } catch (cause) {
    throw new AppError("request.malformed", {
      reason: "the body is no JSON",
      publicDetail: "the body is no JSON",
      cause,
    });
  }
}
