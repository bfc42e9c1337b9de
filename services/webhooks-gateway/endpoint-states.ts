import { AppError } from "../../shared/platform/errors/app-error.ts";
import { createReadEndpointSettings } from "../../shared/queue/endpoints.ts";
import type { Partition } from "../../shared/redis/partition.ts";

/** Returns the path if an operator holds the endpoint. Throws `webhook.endpoint_disabled`. */
export type HeldAtOf = (path: string) => string | undefined;

const RETRY_AFTER_MS = 60_000;

/** Keeps the states that operators give endpoints. `read` is part of each check of Redis, so no request is taken before the first one. */
export function createEndpointStates(partition: Partition) {
  const readSettings = createReadEndpointSettings(partition);
  let settings: Awaited<ReturnType<typeof readSettings>> = new Map();
  const heldAtOf: HeldAtOf = (path) => {
    const state = settings.get(path)?.state;
    if (state !== "disabled") return state === "held" ? path : undefined;
    const reason = `an operator has disabled ${path}`;
    throw new AppError("webhook.endpoint_disabled", { reason, retryAfterMs: RETRY_AFTER_MS });
  };
  return {
    heldAtOf,
    async read(): Promise<void> {
      settings = await readSettings();
    },
  };
}
