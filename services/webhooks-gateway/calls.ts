import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError, toAppError } from "../../shared/errors/app-error.ts";
import { demandToken, type Proves, toProvenStatus } from "../../shared/gateway/ask-result.ts";
import type { CallStreams } from "../../shared/gateway/call-streams.ts";
import { sendResult } from "../../shared/gateway/send-result.ts";
import type { ClientAddressOf } from "../../shared/http/client-address.ts";
import { COMMON_HEADERS, sendProblem } from "../../shared/http/problem.ts";
import { addressKey } from "../../shared/ip/address.ts";
import type { Results } from "../../shared/results/store.ts";

const CALL = /^\/webhooks\/calls\/(c_[0-9a-f]{32})(\/result|\/events)?$/;

/** Where a webhook's result is asked for, without the gateway's own URL. */
export const resultPathOf = (callId: string) => `/webhooks/calls/${callId}/result`;

type Deps = {
  results: Pick<Results, "isPaid" | "read" | "state" | "status">;
  streams: Pick<CallStreams, "open">;
  proves: Proves;
  addressOf: ClientAddressOf;
};

/**
 * Answers who asks for the state or the result of a webhook's call, or watches it: `GET /webhooks/calls/{call_id}`, and `/result` and
 * `/events` below it. Undefined if the path names no call.
 */
export function createAnswerCalls({ results, streams, proves, addressOf }: Deps) {
  /** The token of a paid call is as good, but it is asked for at the x402 gateway, which knows its payment. */
  async function assertNotPaid(callId: string, refusal = unknownCall): Promise<void> {
    if (await results.isPaid(callId)) throw refusal();
  }

  /** The state word is for anybody, the rest for who has the token. */
  async function statusOf(req: IncomingMessage, callId: string): Promise<object> {
    const isProven = await proves(req, callId);
    await assertNotPaid(callId);
    if (!isProven) {
      const state = await results.state(callId);
      if (state === undefined) throw unknownCall();
      return { call_id: callId, state: state.toLowerCase() };
    }
    const status = await results.status(callId);
    if (status === undefined) throw unknownCall();
    return { call_id: callId, state: status.state.toLowerCase(), ...toProvenStatus(status) };
  }

  async function answerResult(req: IncomingMessage, res: ServerResponse, callId: string): Promise<void> {
    if (!(await proves(req, callId))) return demandToken(req, res);
    await assertNotPaid(callId);
    const read = await results.read(callId);
    if (read.kind === "unknown") throw unknownCall();
    sendResult(req, res, read);
  }

  /** Its token proves that there is such a call, also while it has no record. */
  async function watch(req: IncomingMessage, res: ServerResponse, callId: string): Promise<void> {
    const isProven = await proves(req, callId);
    await assertNotPaid(callId, unwatchable);
    await streams.open(req, res, { callId, isProven, party: addressKey(addressOf(req)), mayBegin: isProven });
  }

  async function answer(
    req: IncomingMessage,
    res: ServerResponse,
    callId: string,
    below: string | undefined,
  ) {
    try {
      if (req.method !== "GET" && req.method !== "HEAD") refuseMethod(req, res);
      else if (below === "/result") await answerResult(req, res, callId);
      else if (below === "/events") await watch(req, res, callId);
      else sendJson(res, await statusOf(req, callId));
    } catch (thrown) {
      sendProblem(req, res, toAppError(thrown));
    }
  }

  return (req: IncomingMessage, res: ServerResponse, path: string): Promise<void> | undefined => {
    const [, callId, below] = CALL.exec(path) ?? [];
    return callId === undefined ? undefined : answer(req, res, callId, below);
  };
}

function unknownCall(): AppError {
  const detail =
    "no such call; one without a delivery id is known only once it has ended or failed, and only if its endpoint keeps results";
  return AppError.public("request.not_found", detail);
}

/** As a stream refuses a call that is not there. */
function unwatchable(): AppError {
  return AppError.public("request.not_found", "no such call");
}

function refuseMethod(req: IncomingMessage, res: ServerResponse): void {
  const error = new AppError("request.method_not_allowed", {
    reason: `${req.method}`,
    publicDetail: "use GET",
  });
  sendProblem(req, res, error, { headers: { Allow: "GET, HEAD" } });
}

function sendJson(res: ServerResponse, value: object): void {
  const body = JSON.stringify(value);
  const length = Buffer.byteLength(body);
  res.writeHead(200, { ...COMMON_HEADERS, "Content-Type": "application/json", "Content-Length": length });
  res.end(body);
}
