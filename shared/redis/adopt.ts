import adoptLua from "./adopt.lua";
import type { AuditEntry } from "./audit/actions.ts";
import { AUDIT, actKeys, toLine } from "./audit/audit.ts";
import { defineScript } from "./define-script.ts";
import type { Partition } from "./partition.ts";
import { optional, text } from "./reply.ts";

const ADOPT = defineScript({
  source: adoptLua,
  keys: "deployment, acts, repeats, actCount",
  args: "id, replaced, unaudited, line",
  constants: { AUDIT },
  proof: "needed",
  reply: optional(text),
});

type Adoption = {
  /** The deployment that uses the data from now on. */
  id: string;
  /**
   * Id of another deployment, to which the data may belong until now. Without it, data of another deployment is not adopted.
   */
  replaced: string | undefined;
  /** Payments since this time (unix ms) must be audited before jobs are sold again. */
  unauditedSince: number | undefined;
  /** The line for the audit log. Absent for all partitions but one, so that an adoption is logged once. */
  act?: AuditEntry<"acts">;
};

/**
 * Assigns the data in this partition to a deployment, so that all processes of this deployment use it. If the data belongs to
 * a deployment that is neither this one nor `replaced`, changes nothing and resolves with that deployment's id.
 */
export function adoptDeployment(
  { redis, keys }: Partition,
  { id, act, replaced, unauditedSince }: Adoption,
): Promise<string | undefined> {
  const line = act && toLine(act);
  const touched = { deployment: keys.deployment, ...actKeys(keys, act) };
  return ADOPT.on(redis)(touched, { id, replaced, unaudited: unauditedSince, line });
}

/** Reads the id of the deployment to which the data belongs, and the time of its last report (unix ms; deployment.ts). */
export async function readDeployment({ redis, keys }: Partition) {
  const [id, at] = await redis.hmget(keys.deployment, "id", "at");
  return { id: id ?? undefined, lastReport: at === null || at === undefined ? undefined : Number(at) };
}
