import { z } from "zod";
import type { OperateDeps } from "../queue/operate.ts";
import { createAudit } from "../redis/audit/audit.ts";
import { count } from "./view.ts";

/** All processes are asked to read their configuration again. */
export const ReloadAsked = z
  .object({
    /** A process has done it once its `reloads` in the overview is this or more. Each looks every ten seconds. */
    number: count,
  })
  .meta({ id: "ReloadAsked" });
export type ReloadAsked = z.infer<typeof ReloadAsked>;

/** Asks all processes that report to read their configuration again. */
export function createAskReload({ partition, clock, log, by }: OperateDeps) {
  const { redis, keys, prefix } = partition;
  const audit = createAudit(partition, log);
  return async ({ reason }: { reason: string }): Promise<ReloadAsked> => {
    const deployment = prefix.replace(/[{}]/g, "");
    await audit({ at: clock(), action: "reload", deployment, by, selection: "all processes", reason });
    return { number: await redis.incr(keys.reloads) };
  };
}
