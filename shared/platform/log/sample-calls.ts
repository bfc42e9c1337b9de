import type { Logger } from "./logger.ts";

/**
 * Events of calls that went well. A failure, a postponement, a settled payment and an operator's action are none of them, so they are always
 * logged.
 */
const SAMPLED: ReadonlySet<string> = new Set([
  "webhook.accepted",
  "payment.accepted",
  "call.injected",
  "result.delivered",
  "job.finished",
  "job.stored",
  "wait.ended",
  "stream.ended",
]);

const DIGITS = 8;
const VALUES = 16 ** DIGITS;

/**
 * Logs the events of calls that went well for this share of the calls, from 0 to 1. The digits of a call's id decide, so that each process
 * logs the same calls. They are the last ones: the first may choose the call's partition. The end of a call that was postponed before is logged.
 */
export function sampleCalls<Log extends Logger>(log: Log, share: number): Log {
  if (share === 1) return log;
  const isLogged = (callId: unknown): boolean => {
    return Number.parseInt(String(callId).slice(-DIGITS), 16) < share * VALUES;
  };
  return {
    ...log,
    info(event, fields = {}) {
      const { callId, attemptsBefore = 0 } = fields;
      if (SAMPLED.has(event) && attemptsBefore === 0 && !isLogged(callId)) return;
      log.info(event, fields);
    },
  };
}
