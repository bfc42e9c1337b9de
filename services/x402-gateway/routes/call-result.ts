import type { IncomingMessage, ServerResponse } from "node:http";
import type { Proves } from "../../../shared/gateway/ask-result.ts";
import { sendResult } from "../../../shared/gateway/send-result.ts";
import type { Results } from "../../../shared/results/store.ts";

type Deps = {
  results: Pick<Results, "read">;
  proves: Proves;
  /** Answers who has proven nothing, alike for every call id, so that nobody learns which there are. */
  demandProof: (req: IncomingMessage, res: ServerResponse, callId: string) => void;
};

/** GET /x402/calls/{call_id}/result: what the runner answered. Nothing is read before the right to it is proven. */
export function createCallResult({ results, proves, demandProof }: Deps) {
  return async function answerResult(
    req: IncomingMessage,
    res: ServerResponse,
    callId: string,
  ): Promise<void> {
    if (!(await proves(req, callId))) return demandProof(req, res, callId);
    sendResult(req, res, await results.read(callId));
  };
}
