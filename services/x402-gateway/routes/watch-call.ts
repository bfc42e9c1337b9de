import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { Proves } from "../../../shared/gateway/ask-result.ts";
import type { CallStreams } from "../../../shared/gateway/call-streams.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";

type Deps = {
  journal: Pick<PaymentJournal, "look">;
  streams: Pick<CallStreams, "open">;
  proves: Proves;
  partyOf: (req: IncomingMessage) => string;
};

/**
 * GET /x402/calls/{call_id}/events: a stream of what happens to a paid call. As with its status, the state word is for anybody, and the rest for
 * who has proven a right to the result.
 */
export function createWatchCall({ journal, streams, proves, partyOf }: Deps) {
  return async function watchCall(req: IncomingMessage, res: ServerResponse, callId: string): Promise<void> {
    const isProven = await proves(req, callId);
    if ((await journal.look(callId)) === undefined)
      throw AppError.public("request.not_found", "no such call");
    await streams.open(req, res, { callId, isProven, party: partyOf(req), mayBegin: false });
  };
}
