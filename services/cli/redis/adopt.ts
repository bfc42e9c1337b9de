import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { adoptDeployment, readDeployment } from "../../../shared/redis/adopt.ts";
import { newDeploymentId } from "../../../shared/redis/deployment.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine, plain } from "../text.ts";
import { withRedis } from "../with-redis.ts";

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
  const { reason, since, withoutAudit = false, replace, json, configDir } = options;
  return withRedis(deps, { configDir, ofAnyDeployment: true }, async ({ partition, postern, clock, by }) => {
    const found = await readDeployment(partition);
    const id = postern.redis.deployment_id ?? found.id ?? newDeploymentId();
    const unauditedSince = withoutAudit ? undefined : (since ?? found.lastReport ?? unknownTime());
    const unaudited = unauditedSince === undefined ? null : toIso(unauditedSince);
    const selection = unaudited === null ? "without audit" : `data lost since ${unaudited}`;
    if (!(await isConfirmed(deps, id, options))) {
      deps.say("nothing was changed\n");
      return EXIT.failed;
    }
    const act = { at: clock(), action: "adopt", deployment: id, by, selection, reason } as const;
    const other = await adoptDeployment(partition, { id, replaced: replace, unauditedSince, act });
    if (other !== undefined) throw ofOther(other);
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

async function isConfirmed({ terminal }: ProgramDeps, id: string, options: AdoptOptions): Promise<boolean> {
  const { yes = false, withoutAudit = false } = options;
  if (yes) return true;
  const sale = withoutAudit ? "continue to sell jobs" : "sell no job until `postern payments audit` has run";
  const what = `Adopt this Redis as it is for deployment ${plain(id)}, and ${sale}?`;
  return /^y(es)?$/i.test(await terminal.ask(`${what} [y/N] `));
}

function unknownTime(): never {
  throw AppError.public(
    "request.malformed",
    "--since is required: this Redis has no report, so the start of the lost time is unknown; if nothing was sold, use --without-audit",
  );
}

function ofOther(id: string): AppError {
  const detail = `Redis holds the data of deployment ${plain(id)}. If that one no longer uses this Redis, add --replace ${plain(id)}`;
  return AppError.public("start.wrong_redis", detail);
}
