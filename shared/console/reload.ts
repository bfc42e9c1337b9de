import { z } from "zod";
import type { OperateDeps } from "../queue/operate.ts";
import { createAudit } from "../redis/audit/audit.ts";
import { count } from "./view.ts";

/** Confirms that all processes have been asked to read their configuration again. */
export const ReloadAsked = z
  .object({
    /**
     * Number of this reload. A process has completed it once its `reloads` in the overview is at least this number.
     * Each process checks for a reload every ten seconds.
     */
    number: count,
  })
  .meta({ id: "ReloadAsked" });
export type ReloadAsked = z.infer<typeof ReloadAsked>;

/**
 * Asks all processes to read their configuration again. A process learns of this when it reports its state to
 * Redis. So a process that does not report ignores it.
 */
export function createAskReload({ partition, clock, log, by }: OperateDeps) {
  const { redis, keys, prefix } = partition;
  const audit = createAudit(partition, log);
  return async ({ reason }: { reason: string }): Promise<ReloadAsked> => {
    const deployment = prefix.replace(/[{}]/g, "");
    await audit({ at: clock(), action: "reload", deployment, by, selection: "all processes", reason });
    return { number: await redis.incr(keys.reloads) };
  };
}
