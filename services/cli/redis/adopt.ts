import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { restoreIntents } from "../../../shared/queue/intents.ts";
import { adoptDeployment, readDeployment } from "../../../shared/redis/adopt.ts";
import { newDeploymentId } from "../../../shared/redis/deployment.ts";
import { askAll } from "../../../shared/redis/merge.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { mayChange } from "../terminal.ts";
import { jsonLine, plain } from "../text.ts";
import { type Session, withRedis } from "../with-redis.ts";

export type AdoptOptions = {
  configDir: string;
  reason: string;
  /** Unix ms. */
  since?: number;
  withoutAudit?: boolean;
  replace?: string;
  yes?: boolean;
  json?: boolean;
};

/**
 * `postern redis adopt`: makes this deployment use the data in Redis as it is. Services refuse to use a Redis whose
 * data was lost or restored from a backup, until an operator runs this command. Exit code 1 if the operator did not
 * confirm, or if the data belongs to another deployment.
 */
export function adoptRedis(deps: ProgramDeps, options: AdoptOptions): Promise<number> {
  const { configDir, json } = options;
  return withRedis(deps, { configDir, ofAnyDeployment: true }, async (session) => {
    if (!(await mayChange(deps, options, questionOf(options)))) return EXIT.failed;
    const { id, unauditedSince, intentsOf } = await adopt(session, options);
    const unaudited = unauditedSince === undefined ? null : toIso(unauditedSince);
    if (json) deps.print(jsonLine({ deployment: id, unaudited_since: unaudited }));
    deps.say(inWords(id, unaudited));
    if (intentsOf !== undefined) deps.say(`pauses and holds are as partition ${intentsOf} has them\n`);
    return EXIT.ok;
  });
}

function inWords(id: string, unaudited: string | null): string {
  const adopted = `adopted for deployment ${plain(id)}: its processes continue within seconds\n`;
  if (unaudited === null) return adopted;
  return `${adopted}no job is sold until \`postern payments audit --from-block N\` has run on each network; block N must be older than ${unaudited}\n`;
}

function questionOf({ withoutAudit = false }: AdoptOptions): string {
  const sale = withoutAudit ? "continue to sell jobs" : "sell no job until `postern payments audit` has run";
  return `Adopt this Redis as it is, and ${sale}?`;
}

type Adopted = {
  id: string;
  unauditedSince: number | undefined;
  /**
   * Partition 0 has the current pauses of jobs and states of endpoints, and the other partitions have copies. If a copy
   * is newer than what partition 0 has now, this is the partition from which they were copied back. Otherwise
   * undefined.
   */
  intentsOf: number | undefined;
};

/**
 * Adopts all partitions. Partition 0 comes first, because gateways read there whether they may offer jobs. Only
 * partition 0 gets a line in the audit log. If the command is interrupted, it can be run again, and adopts the
 * remaining partitions. Adopts none if a partition has the data of another deployment.
 */
async function adopt(session: Session, options: AdoptOptions): Promise<Adopted> {
  const { partitions, postern, clock, by } = session;
  const { reason, since, withoutAudit, replace } = options;
  const configured = postern.redis.deployment_id;
  const found = await askAll(partitions, readDeployment);
  const id = configured ?? found.find((each) => each.id !== undefined)?.id ?? newDeploymentId();
  for (const [index, each] of found.entries())
    if (each.id !== undefined && each.id !== id && each.id !== replace)
      throw otherDeploymentError(each.id, index, found.length);
  const unauditedSince = withoutAudit ? undefined : startOfLoss(since, found, clock());
  const audit = unauditedSince === undefined ? "without audit" : `data lost since ${toIso(unauditedSince)}`;
  const selection = found.length === 1 ? audit : `${audit}; ${found.map(auditText).join(", ")}`;
  const intentsOf = await restoreIntents(partitions);
  const act = { at: clock(), action: "adopt", deployment: id, by, selection, reason } as const;
  for (const [index, partition] of partitions.all.entries()) {
    const adoption = { id, replaced: replace, unauditedSince, ...(index === 0 && { act }) };
    const other = await adoptDeployment(partition, adoption);
    if (other === undefined) continue;
    if (configured !== undefined || index > 0) throw otherDeploymentError(other, index, found.length);
    return adopt(session, options); // another process has just given the data an id, so start again with that id
  }
  return { id, unauditedSince, intentsOf };
}

type Found = Awaited<ReturnType<typeof readDeployment>>;

/** Describes the data of a partition before the adoption, for the audit log. */
function auditText({ id, lastReport }: Found, index: number): string {
  if (id === undefined) return `partition ${index} was empty`;
  return `partition ${index} had ${lastReport === undefined ? "no report" : `a report of ${toIso(lastReport)}`}`;
}

/**
 * Limit on how far the time of a report may be ahead of `now`. Reports have the time of the Redis that stores them.
 * `now` is only an estimate of that Redis' clock, so a report may seem to come from the near future.
 */
const REPORT_LEAD_MS_MAX = 60_000;

/**
 * Returns the time (unix ms) since which data may be lost: `since` if it is given, or otherwise the oldest of the
 * partitions' last reports. Processes report to each partition regularly, so its last report shows how old its data is.
 * Throws if the time is unknown or in the future. Gateways sell no job until an operator has audited the payments since
 * that time. If the time were too late, they would sell again although the audit has missed lost payments.
 */
function startOfLoss(since: number | undefined, found: readonly Found[], now: number): number {
  if (since !== undefined && since > now)
    throw AppError.public(
      "request.malformed",
      "--since is in the future; give the time at which data was first lost",
    );
  if (since !== undefined) return since;
  const reports = found.map(({ lastReport }, index) => {
    if (lastReport !== undefined && lastReport <= now + REPORT_LEAD_MS_MAX) return lastReport;
    const which = found.length === 1 ? "this Redis" : `partition ${index}`;
    const reason =
      lastReport === undefined ? "has no report" : `has a report of ${toIso(lastReport)}, in the future`;
    throw AppError.public(
      "request.malformed",
      `--since is required: ${which} ${reason}, so the start of the lost time is unknown; if nothing was sold, use --without-audit`,
    );
  });
  return Math.min(...reports);
}

function otherDeploymentError(id: string, index: number, count: number): AppError {
  const place = count === 1 ? "Redis" : `Partition ${index} of ${count}`;
  const detail = `${place} holds the data of deployment ${plain(id)}. If that one no longer uses this Redis, add --replace ${plain(id)}`;
  return AppError.public("start.wrong_redis", detail);
}
