import { AppError } from "../../shared/platform/errors/app-error.ts";
import {
  createReadEndpointSettings,
  type EndpointSetting,
  toSettings,
} from "../../shared/queue/endpoints.ts";
import { openIntents } from "../../shared/queue/intents.ts";
import type { Partitions } from "../../shared/redis/partition.ts";

/** Returns the path if an operator holds the endpoint. Throws `webhook.endpoint_disabled`. */
export type HeldAtOf = (path: string) => string | undefined;

const RETRY_AFTER_MS = 60_000;

/**
 * Keeps the states that operators give endpoints. `read` is part of each check of partition 0, and `sync` of each check of another one:
 * a call is held by the setting in its own partition. So no request is taken before the first reading.
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

    /** Makes another partition hold what operators have said last. */
    async sync(...asked: Parameters<typeof intents.sync>): Promise<void> {
      settings = toSettings((await intents.sync(...asked)).settings);
    },
  };
}
