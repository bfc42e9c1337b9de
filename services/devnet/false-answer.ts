import { randomBytes } from "node:crypto";
import type { ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { toHex } from "../../shared/ethereum/encoding.ts";
import type { Facilitator, FacilitatorRequest } from "./facilitator.ts";
import type { Fault } from "./faults.ts";
import { describeRequest } from "./payment.ts";
import { type Answer, send, sendAnswer } from "./true-answer.ts";

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
