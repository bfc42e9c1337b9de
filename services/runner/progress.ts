import { PROGRESS_BYTES_MAX } from "../../shared/call/results/delivery.ts";
import { messageOf } from "../../shared/platform/errors/app-error.ts";
import type { Fields, Logger } from "../../shared/platform/log/logger.ts";
import { delay } from "../../shared/platform/time/clock.ts";
import type { Gateways } from "./gateways.ts";

/** Minimum time between two progress messages of one call. */
const PAUSE_MS = 1000;

/** Reports the progress of a call while its handler runs. */
export type ProgressReporter = {
  report(fields: Fields): void;
  /** Stops reporting, because the result follows. */
  end(): void;
};

export type CreateReporter = (callId: string) => ProgressReporter;

export const NO_REPORTER: CreateReporter = () => ({ report() {}, end() {} });

/**
 * Creates the function that creates a call's reporter, which sends the call's progress to a gateway. It sends at most one
 * message a second, one at a time, and always the newest. A message that could not be sent is not sent again.
 */
export function createReporters(gateways: Gateways, log: Logger): CreateReporter {
  return (callId) => {
    const ended = new AbortController();
    let newest: string | undefined;
    let isSending = false;

    async function sendNewest(): Promise<void> {
      while (newest !== undefined && !ended.signal.aborted) {
        const json = newest;
        newest = undefined;
        await gateways.sendProgress(callId, json).catch((error: unknown) => {
          log.warn("job.progress_not_sent", { callId, reason: messageOf(error) });
        });
        await delay(PAUSE_MS, ended.signal).catch(() => {});
      }
      isSending = false;
    }

    return {
      report(fields) {
        const json = jsonOf(fields);
        if (json === undefined || Buffer.byteLength(json) > PROGRESS_BYTES_MAX) {
          const reason = `progress must be a JSON object of at most ${PROGRESS_BYTES_MAX} bytes`;
          log.warn("job.progress_not_sent", { callId, reason });
          return;
        }
        newest = json;
        if (isSending) return;
        isSending = true;
        void sendNewest();
      },
      end: () => ended.abort(),
    };
  };
}

function jsonOf(fields: Fields): string | undefined {
  try {
    return JSON.stringify(fields);
  } catch {
    return undefined;
  }
}
