import { AppError } from "../../shared/platform/errors/app-error.ts";
import {
  createReadEndpointSettings,
  type EndpointSetting,
  toSettings,
} from "../../shared/queue/endpoints.ts";
import { openIntents } from "../../shared/queue/intents.ts";
import type { Partitions } from "../../shared/redis/partition.ts";

/** Returns `path` if an operator holds the endpoint, otherwise undefined. Throws `webhook.endpoint_disabled`. */
export type HeldAtOf = (path: string) => string | undefined;

const RETRY_AFTER_MS = 60_000;

/**
 * Caches the states (held, disabled) that operators give to endpoints. Operators write these states to partition 0 of
 * Redis. Each other partition stores a copy, because the script that enqueues a call (enqueue.lua) reads them in the
 * call's own partition. The gateway checks each partition once a second, and reads the states on this occasion. The
 * check of partition 0 calls `read`. The check of any other partition calls `sync`, which also copies the states to
 * that partition. The gateway accepts requests only after the first check.
 */
export function createEndpointStates(partitions: Partitions) {
  const readSettings = createReadEndpointSettings(partitions.control);
  const intents = openIntents(partitions);
  let settings: ReadonlyMap<string, EndpointSetting> = new Map();
  const heldAtOf: HeldAtOf = (path) => {
    const state = settings.get(path)?.state;
    if (state !== "disabled") return state === "held" ? path : undefined;
    const reason = `an operator has disabled ${path}`;
    throw new AppError("webhook.endpoint_disabled", { reason, retryAfterMs: RETRY_AFTER_MS });
  };
  return {
    heldAtOf,

    async read(): Promise<void> {
      settings =
        partitions.all.length === 1 ? await readSettings() : toSettings((await intents.read()).settings);
    },

    /** Copies the operators' newest settings to a partition other than partition 0, and caches them. */
    async sync(...asked: Parameters<typeof intents.sync>): Promise<void> {
      settings = toSettings((await intents.sync(...asked)).settings);
    },
  };
}
