import type { Results } from "../../shared/call/results/store.ts";
import type { ClientAddressOf } from "../../shared/http/client-address.ts";
import { addressKey } from "../../shared/http/ip/address.ts";
import { sendProblem } from "../../shared/http/problem.ts";
import type { Route } from "../../shared/http/router.ts";
import type { MayReadResult } from "../../shared/ingress/ask-result.ts";
import { callRoutes } from "../../shared/ingress/call-routes.ts";
import type { CallStreams } from "../../shared/ingress/call-streams.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";

/** Path of a webhook's result, below the gateway's own URL. */
export const resultPathOf = (callId: string) => `/webhooks/calls/${callId}/result`;

type Deps = {
  results: Pick<Results, "isPaid" | "read" | "state" | "status">;
  streams: Pick<CallStreams, "open">;
  mayReadResult: MayReadResult;
  addressOf: ClientAddressOf;
};

/** Routes that read a call's state, result and events. */
export function webhookCallRoutes({ results, streams, mayReadResult, addressOf }: Deps): Route[] {
  return callRoutes("webhooks", {
    results,
    streams,
    refusalOf: async (req, callId) => ((await mayReadResult(req, callId)) ? undefined : tokenRequired()),
    demandProof: (req, res, _callId, refusal) =>
      sendProblem(req, res, refusal, { headers: { "WWW-Authenticate": 'Bearer realm="postern"' } }),
    ownMembersOf: async (callId) => ((await results.isPaid(callId)) ? undefined : {}),
    unknownDetail:
      "no such call. A call without a delivery id is known only after it has ended or failed, and only if its endpoint keeps results.",
    clientKeyOf: (req) => addressKey(addressOf(req)),
  });
}

function tokenRequired(): AppError {
  const detail = "send the result_token of the call's 202 as Authorization: Bearer or ?token=";
  return AppError.public("result.proof_required", detail);
}
