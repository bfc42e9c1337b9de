import { PROGRESS_BYTES_MAX } from "../../shared/call/results/delivery.ts";
import { messageOf } from "../../shared/platform/errors/app-error.ts";
import type { Fields, Logger } from "../../shared/platform/log/logger.ts";
import { delay } from "../../shared/platform/time/clock.ts";
import type { Gateways } from "./gateways.ts";

/** Between two words of one call. */
const PAUSE_MS = 1000;

/** What a handler tells of its progress while it runs. */
export type Teller = {
  tell(fields: Fields): void;
  /** Tells nothing more: the result says it all. */
  end(): void;
};

export type CreateTeller = (callId: string) => Teller;

export const NO_TELLER: CreateTeller = () => ({ tell() {}, end() {} });

/**
 * Tells gateways of the progress of a call: at most once a second, one word at a time, and the newest. What cannot be told is not told
 * again.
 */
export function createTellerOf(gateways: Gateways, log: Logger): CreateTeller {
  return (callId) => {
    const ended = new AbortController();
    let newest: string | undefined;
    let isTelling = false;

    async function tellAll(): Promise<void> {
      while (newest !== undefined && !ended.signal.aborted) {
        const json = newest;
        newest = undefined;
        await gateways.tellProgress(callId, json).catch((error: unknown) => {
          log.warn("job.progress_not_sent", { callId, reason: messageOf(error) });
        });
        await delay(PAUSE_MS, ended.signal).catch(() => {});
      }
      isTelling = false;
    }

    return {
      tell(fields) {
        const json = jsonOf(fields);
        if (json === undefined || Buffer.byteLength(json) > PROGRESS_BYTES_MAX) {
          const reason = `progress must be a JSON object of at most ${PROGRESS_BYTES_MAX} bytes`;
          log.warn("job.progress_not_sent", { callId, reason });
          return;
        }
        newest = json;
        if (isTelling) return;
        isTelling = true;
        void tellAll();
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
