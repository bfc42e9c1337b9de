import { AppError } from "../platform/errors/app-error.ts";
import type { OperatorDeps } from "../queue/operate.ts";
import { openRegistry } from "../queue/registry.ts";
import { openDelayed, runNowAct } from "../queue/run-delayed.ts";
import { logAudited } from "../redis/audit/audit.ts";
import type { CallsApi } from "./calls.ts";

type Deps = OperatorDeps & Pick<CallsApi, "show">;

/**
 * Runs a delayed call before the time of its next attempt, and writes a line in the audit log. Throws `call.unknown`
 * and `call.not_delayed`.
 */
export function createRunNow({ partitions, clock, log, by, show }: Deps) {
  const registries = partitions.map(openRegistry);
  const delayed = partitions.map(openDelayed);
  return async (id: string, reason: string): Promise<void> => {
    const why = { at: clock(), by, reason };
    const place = await registries.of(id).find(id);
    if (place !== undefined && (await delayed.of(id).call(id, place.queue, why)))
      return logAudited(log, runNowAct(id, why));
    const { state, queue } = await show(id);
    throw AppError.public("call.not_delayed", `${id} is not delayed; the call is ${queue?.as ?? state}`);
  };
}
