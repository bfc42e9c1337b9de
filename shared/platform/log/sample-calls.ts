import type { Logger } from "./logger.ts";

/**
 * Events of successful calls. They may be logged for only a share of the calls. All other events are always logged:
 * failures, postponements, settled payments and operators' actions.
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
 * Wraps a logger, which then logs the events of successful calls for only this share of the calls, from 0 to 1. The
 * last digits of a call's id decide, so that every process logs the same calls. The first digits are not used, because
 * they may choose the call's partition. If a call was postponed before, its success is always logged, because its
 * postponement was logged too.
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
