import { type Place, placesOf } from "../../../shared/part/places.ts";
import { AppError, messageOf } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { delay, settled } from "../../../shared/platform/time/clock.ts";
import { createAudit } from "../../../shared/redis/audit/audit.ts";
import { planRemoval, type Removal } from "../../../shared/redis/remove-node.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { mayChange } from "../terminal.ts";
import { jsonLine } from "../text.ts";
import { type Session, withRedis } from "../with-redis.ts";

export type RemoveNodeOptions = { configDir: string; yes?: boolean; json?: boolean };

/**
 * Number of attempts to write the line in the audit log. The write waits until all replicas confirm it. After the
 * removal, this command's connection takes a second to notice that there is one replica fewer, and until then writes
 * fail.
 */
const AUDIT_TRIES = 10;
const AUDIT_PAUSE_MS = 1000;

/**
 * `postern redis remove-node`: makes the sentinels, or the other nodes of a Redis Cluster, forget a replica that will
 * never return. As long as they list the replica, each write waits for its confirmation. Exit code 1 if nothing was done, because the
 * operator did not confirm or the node still runs.
 */
export function removeNode(deps: ProgramDeps, node: string, options: RemoveNodeOptions): Promise<number> {
  return withRedis(deps, options, async (session) => {
    const { removal, target } = await planAmongPartitions(placesOf(session.postern.redis), node);
    if (!(await mayChange(deps, options, questionOf(node, removal)))) return EXIT.failed;
    await removal.run((server) => deps.say(`forgotten by ${server}\n`));
    const { unreached, replicas } = removal;
    const minReplicas = target.confirmed?.minReplicas ?? 0;
    const isAudited = await writeAuditLine(
      deps,
      session,
      node,
      replicas.length < minReplicas ? 1 : AUDIT_TRIES,
    );
    const forgottenBy = removal.listedBy;
    if (options.json) {
      const members = { node, forgotten_by: forgottenBy, unreached, replicas, audited: isAudited };
      deps.print(jsonLine(members));
    }
    deps.say(`${node} is removed; replicas: ${replicas.join(", ") || "none"}\n`);
    for (const note of notes(removal, minReplicas)) deps.note(`warning: ${note}\n`);
    return EXIT.ok;
  });
}

/**
 * Plans the removal in each partition whose servers list the node as a replica. Resolves with the plan that leaves the
 * fewest replicas. Running one plan is enough, because it makes all nodes of a Redis Cluster forget the node.
 */
async function planAmongPartitions(places: readonly Place[], node: string) {
  const targets = places.map(({ target }) => target).filter((target) => "finder" in target);
  if (targets.length === 0)
    throw AppError.public(
      "command.failed",
      "[redis] has neither sentinels nor nodes, so no replica is waited for",
    );
  const planned = await Promise.all(
    targets.map(async (target) => ({ target, outcome: await settled(planRemoval(target, node)) })),
  );
  const [fewest] = planned
    .flatMap(({ target, outcome }) => (outcome.kind === "done" ? [{ target, removal: outcome.result }] : []))
    .sort((a, b) => a.removal.replicas.length - b.removal.replicas.length);
  if (fewest !== undefined) return fewest;
  const [first] = planned;
  throw first?.outcome.kind === "failed" ? first.outcome.error : undefined;
}

function questionOf(node: string, { listedBy }: Removal): string {
  return `Make ${listedBy.join(", ")} forget ${node}? It must never return with its old data.`;
}

/**
 * Writes the line in the audit log, and resolves with whether it was written. Call this after the removal. A write
 * before it would wait for the removed replica to confirm it, which never happens.
 */
async function writeAuditLine(
  deps: ProgramDeps,
  session: Session,
  node: string,
  triesMax: number,
): Promise<boolean> {
  const { partition, log, clock, by } = session;
  const audit = createAudit(partition, log);
  const line = { at: clock(), action: "remove_node", node, by, selection: "by address" } as const;
  for (let tries = 1; ; tries++) {
    const outcome = await settled(audit(line));
    if (outcome.kind === "done") return true;
    if (tries === triesMax) {
      deps.note(`warning: ${messageOf(outcome.error)}\n`);
      return false;
    }
    await delay(AUDIT_PAUSE_MS);
  }
}

function notes({ unreached, replicas }: Removal, minReplicas: number): string[] {
  return [
    ...(unreached.length > 0
      ? [`no answer from ${unreached.join(", ")}: if one returns and lists the node, run this command again`]
      : []),
    ...(replicas.length < minReplicas
      ? [
          `no call is accepted with fewer replicas than min_replicas, which is ${minReplicas}: add a replica, or lower it`,
        ]
      : []),
  ];
}
