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
  json?: boolean;
};

/** `postern redis adopt`: 1 if the data is another deployment's. */
export function adoptRedis(deps: ProgramDeps, options: AdoptOptions): Promise<number> {
  const { reason, since, withoutAudit = false, replace, json, configDir } = options;
  return withRedis(deps, { configDir, ofAnyDeployment: true }, async ({ partition, postern, clock, by }) => {
    const found = await readDeployment(partition);
    const id = postern.redis.deployment_id ?? found.id ?? newDeploymentId();
    const unauditedSince = withoutAudit ? undefined : (since ?? found.lastReport ?? unknownTime());
    const selection =
      unauditedSince === undefined ? "without audit" : `data lost since ${toIso(unauditedSince)}`;
    const act = { at: clock(), action: "adopt", deployment: id, by, selection, reason } as const;
    const other = await adoptDeployment(partition, { id, replaced: replace, unauditedSince, act });
    if (other !== undefined) throw ofOther(other);
    const unaudited = unauditedSince === undefined ? null : toIso(unauditedSince);
    if (json) deps.print(jsonLine({ deployment: id, unaudited_since: unaudited }));
    deps.say(`adopted for deployment ${plain(id)}: its processes go on within seconds\n`);
    if (unaudited !== null)
      deps.say(
        `no job is sold until \`postern payments audit --from-block N\` has run on each network; N must be before ${unaudited}\n`,
      );
    return EXIT.ok;
  });
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
