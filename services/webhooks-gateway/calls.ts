import type { IncomingMessage, ServerResponse } from "node:http";
import type { Results } from "../../shared/call/results/store.ts";
import type { ClientAddressOf } from "../../shared/http/client-address.ts";
import { addressKey } from "../../shared/http/ip/address.ts";
import { sendProblem } from "../../shared/http/problem.ts";
import type { Proves } from "../../shared/ingress/ask-result.ts";
import { type CallRoute, createAnswerCall, createParseCallRoute } from "../../shared/ingress/call-routes.ts";
import type { CallStreams } from "../../shared/ingress/call-streams.ts";
import { AppError, toAppError } from "../../shared/platform/errors/app-error.ts";

/** Where a webhook's result is asked for, without the gateway's own URL. */
export const resultPathOf = (callId: string) => `/webhooks/calls/${callId}/result`;

type Deps = {
  results: Pick<Results, "isPaid" | "read" | "state" | "status">;
  streams: Pick<CallStreams, "open">;
  proves: Proves;
  addressOf: ClientAddressOf;
};

/** Answers requests that read a webhook's call. Returns undefined if the path names no call. */
export function createAnswerCalls({ results, streams, proves, addressOf }: Deps) {
  const parse = createParseCallRoute("webhooks");
  const answerCall = createAnswerCall({
    results,
    streams,
    refusalOf: async (req, callId) => ((await proves(req, callId)) ? undefined : tokenRequired()),
    demandProof: (req, res, _callId, refusal) =>
      sendProblem(req, res, refusal, { headers: { "WWW-Authenticate": 'Bearer realm="postern"' } }),
    ownMembersOf: async (callId) => ((await results.isPaid(callId)) ? undefined : {}),
    unknownDetail:
      "no such call. A call without a delivery id is known only after it has ended or failed, and only if its endpoint keeps results.",
    clientKeyOf: (req) => addressKey(addressOf(req)),
  });

  async function answer(req: IncomingMessage, res: ServerResponse, route: CallRoute): Promise<void> {
    try {
      if (req.method !== "GET" && req.method !== "HEAD") refuseMethod(req, res);
      else await answerCall(req, res, route);
    } catch (thrown) {
      sendProblem(req, res, toAppError(thrown));
    }
  }

  return (req: IncomingMessage, res: ServerResponse, path: string): Promise<void> | undefined => {
    const route = parse(path);
    return route && answer(req, res, route);
  };
}

function tokenRequired(): AppError {
  const detail = "send the result_token of the call's 202 as Authorization: Bearer or ?token=";
  return AppError.public("result.proof_required", detail);
}

function refuseMethod(req: IncomingMessage, res: ServerResponse): void {
  const error = new AppError("request.method_not_allowed", {
    reason: `${req.method}`,
    publicDetail: "use GET",
  });
  sendProblem(req, res, error, { headers: { Allow: "GET, HEAD" } });
}
