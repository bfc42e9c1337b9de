import { sha256Hex } from "../../shared/crypto/compare.ts";
import { contentDigest, signMessage } from "../../shared/crypto/message-signature.ts";
import type { Secret } from "../../shared/crypto/secret.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { systemClock } from "../../shared/time/clock.ts";
import { httpRequest, type Reply } from "./http-request.ts";
import type { AcceptedCall, Tally } from "./tally.ts";

export type RunnerView = {
  /** What the runner says of a call at GET /calls/{id}: its state, or `unknown`. */
  stateOf(callId: string): Promise<string>;
  /** Resolves once the runner lists all of these calls as done, for the right job and with the very bytes sent. */
  untilDone(calls: readonly AcceptedCall[]): Promise<void>;
  /** Offers a call once more under its key, as a producer would: what the runner answers is what it remembers. */
  askAgain(call: AcceptedCall): Promise<Reply>;
};

/** The runner as it can be seen from outside. */
export function createRunnerView(address: string, secret: Secret, tally: Tally): RunnerView {
  async function look(callId: string): Promise<Record<string, unknown>> {
    const reply = await httpRequest(address, { method: "GET", path: `/calls/${callId}` });
    return reply.status === 200 ? (JSON.parse(reply.text) as Record<string, unknown>) : { state: "unknown" };
  }

  async function isDone({ callId, jobId, body }: AcceptedCall): Promise<boolean> {
    const seen = await look(callId);
    return (
      seen["state"] === "done" && seen["job_id"] === jobId && seen["sha256"] === sha256Hex(Buffer.from(body))
    );
  }

  return {
    stateOf: async (callId) => String((await look(callId))["state"]),
    async untilDone(calls) {
      for (const call of calls) {
        await eventually(`the runner lists ${call.callId} as done, with the bytes that were sent`, () =>
          isDone(call),
        );
      }
    },
    askAgain({ callId, jobId, contentType, body }) {
      tally.askedAgain += 1;
      const path = `/jobs/${jobId}`;
      const covered = {
        "content-digest": contentDigest(sha256Hex(Buffer.from(body))),
        "content-type": contentType,
        "idempotency-key": callId,
      };
      const signed = signMessage(
        secret,
        { method: "POST", path, headers: covered },
        Math.floor(systemClock() / 1000),
      );
      return httpRequest(address, { method: "POST", path, headers: { ...covered, ...signed }, body });
    },
  };
}
