import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { adoptDeployment, readDeployment } from "../../../shared/redis/adopt.ts";
import { newDeploymentId } from "../../../shared/redis/deployment.ts";
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

/** `postern redis adopt`: 1 if the answer was no, or if the data is another deployment's. */
export function adoptRedis(deps: ProgramDeps, options: AdoptOptions): Promise<number> {
  const { configDir, json } = options;
  return withRedis(deps, { configDir, ofAnyDeployment: true }, async (session) => {
    if (!(await mayChange(deps, options, questionOf(options)))) return EXIT.failed;
    const { id, unauditedSince } = await adopt(session, options);
    const unaudited = unauditedSince === undefined ? null : toIso(unauditedSince);
    if (json) deps.print(jsonLine({ deployment: id, unaudited_since: unaudited }));
    deps.say(inWords(id, unaudited));
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

type Adopted = { id: string; unauditedSince: number | undefined };

async function adopt(session: Session, options: AdoptOptions): Promise<Adopted> {
  const { partition, postern, clock, by } = session;
  const { reason, since, withoutAudit, replace } = options;
  const configured = postern.redis.deployment_id;
  const found = await readDeployment(partition);
  const id = configured ?? found.id ?? newDeploymentId();
  const unauditedSince = withoutAudit ? undefined : startOfLoss(since, found.lastReport, clock());
  const selection =
    unauditedSince === undefined ? "without audit" : `data lost since ${toIso(unauditedSince)}`;
  const act = { at: clock(), action: "adopt", deployment: id, by, selection, reason } as const;
  const other = await adoptDeployment(partition, { id, replaced: replace, unauditedSince, act });
  if (other === undefined) return { id, unauditedSince };
  if (configured !== undefined) throw ofOther(other);
  return adopt(session, options); // another process has given the data its id meanwhile
}

/** Limit on how far a report may be ahead of a time that was read before it. */
const READING_MS = 60_000;

/** Unix ms. If it were too late, an audit that does not cover the lost time would have jobs sold again. */
function startOfLoss(since: number | undefined, lastReport: number | undefined, now: number): number {
  if (since !== undefined && since > now)
    throw AppError.public(
      "request.malformed",
      "--since is in the future; give the time at which data was first lost",
    );
  if (since !== undefined) return since;
  if (lastReport !== undefined && lastReport <= now + READING_MS) return lastReport;
  const reason =
    lastReport === undefined ? "has no report" : `has a report of ${toIso(lastReport)}, in the future`;
  throw AppError.public(
    "request.malformed",
    `--since is required: this Redis ${reason}, so the start of the lost time is unknown; if nothing was sold, use --without-audit`,
  );
}

function ofOther(id: string): AppError {
  const detail = `Redis holds the data of deployment ${plain(id)}. If that one no longer uses this Redis, add --replace ${plain(id)}`;
  return AppError.public("start.wrong_redis", detail);
}
