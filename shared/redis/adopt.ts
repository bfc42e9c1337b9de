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
  /** Another deployment whose data this may be. */
  replaced: string | undefined;
  /** Start of the time whose payments must be audited before jobs are sold again (unix ms). */
  unauditedSince: number | undefined;
  /** Its line in the audit. Only one partition has it. */
  act?: AuditEntry<"acts">;
};

/**
 * Has all processes of a deployment use the data in this partition. Resolves with the id of the deployment whose data
 * it is, if that is neither this one nor `replaced`; then nothing has changed.
 */
export function adoptDeployment(
  { redis, keys }: Partition,
  { id, act, replaced, unauditedSince }: Adoption,
): Promise<string | undefined> {
  const line = act && toLine(act);
  const touched = { deployment: keys.deployment, ...actKeys(keys, act) };
  return ADOPT.on(redis)(touched, { id, replaced, unaudited: unauditedSince, line });
}

/** The deployment whose data this is, and when its last report was (unix ms). */
export async function readDeployment({ redis, keys }: Partition) {
  const [id, at] = await redis.hmget(keys.deployment, "id", "at");
  return { id: id ?? undefined, lastReport: at === null || at === undefined ? undefined : Number(at) };
}
