import { join } from "node:path";
import { openConfigDir } from "../../shared/config/config-dir.ts";
import { isLoopback, isPrivateUrl } from "../../shared/config/fields.ts";
import { createJobNames } from "../../shared/config/job-names.ts";
import { operatorToml } from "../../shared/config/operator-toml.ts";
import { toDurability } from "../../shared/config/redis-toml.ts";
import { bulkWorkers } from "../../shared/console/bulk-operations.ts";
import { OPERATIONS, type Operations } from "../../shared/console/contract/contract.ts";
import { createHandlers } from "../../shared/console/contract/handlers.ts";
import { clientOf } from "../../shared/console/contract/operation.ts";
import { createOverview } from "../../shared/console/overview/overview.ts";
import { createLocalRuns } from "../../shared/console/runs/local.ts";
import { Secret } from "../../shared/platform/crypto/secret.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { createAudit } from "../../shared/redis/audit/audit.ts";
import type { ConsoleTarget } from "./console/client.ts";
import type { ProgramDeps } from "./program-deps.ts";
import { exitCodeOf, type Session, withRedis } from "./with-redis.ts";

export type OperationTarget = { configDir: string; operator?: URL };

/**
 * Runs `work` with the operations of the console's API. They work on Redis directly, or through the console if its URL
 * is given. Resolves with the exit code, as `withRedis` does.
 */
export function withOperations(
  deps: ProgramDeps,
  { configDir, operator: url }: OperationTarget,
  work: (operations: Operations) => Promise<number>,
): Promise<number> {
  if (url === undefined)
    return withRedis(deps, { configDir }, (session) => work(onRedis(session, deps, configDir)));
  return withConsole(deps, { configDir, url }, async (target) => {
    const { createConsoleClient } = await import("./console/client.ts");
    return work(createConsoleClient(target));
  });
}

/** Runs `work` with the console's URL and the token for it. Resolves with the exit code, as `withRedis` does. */
export function withConsole(
  deps: ProgramDeps,
  { configDir, url }: { configDir: string; url: URL },
  work: (target: ConsoleTarget) => Promise<number>,
): Promise<number> {
  return exitCodeOf(deps, async () => {
    const { token, from } = tokenFor(url, deps, configDir);
    if (token !== undefined && !isPrivateUrl(url.href))
      deps.note(`warning: the token is sent unencrypted, because ${url.origin} does not use TLS\n`);
    return work({ url, token }).catch((error: unknown) => {
      throw withAdvice(error, from);
    });
  });
}

/**
 * Creates the operations that work on Redis. Bulk operations run in this process and end with it, while those of a
 * console run there.
 */
function onRedis(session: Session, { env }: ProgramDeps, configDir: string): Operations {
  const { partition, partitions, clock, log, postern } = session;
  const kinds = bulkWorkers({ ...session, listedMax: Number.POSITIVE_INFINITY });
  const runs = createLocalRuns({ kinds, audit: createAudit(partition, log), clock });
  const overview = createOverview({ partitions, clock, configDir, env, ...toDurability(postern.redis) });
  const jobNames = createJobNames(configDir);
  return clientOf(OPERATIONS, createHandlers({ ...session, runs, overview, jobNames }));
}

/**
 * If the console refused the token, adds to the error where the token came from and which token is needed. Returns any
 * other error unchanged.
 */
function withAdvice(error: unknown, from: string | undefined): unknown {
  if (!(error instanceof AppError) || error.code !== "operator.unauthorized") return error;
  const shown = from === undefined ? "" : `, from ${from}`;
  const advice = "set POSTERN_OPERATOR_TOKEN to a token from [[tokens]] in the console's operator.toml";
  return AppError.public(error.code, `${error.message}${shown}: ${advice}`);
}

/** The token for the console, and the variable or file that it comes from. */
type ConsoleToken = { token?: Secret; from?: string };

/**
 * Returns the token from POSTERN_OPERATOR_TOKEN. If the variable is not set and the console is on this machine, returns
 * the first token with the role operator from operator.toml. This token is never sent to another machine, because the
 * user may have mistyped the URL.
 */
function tokenFor(url: URL, { env }: ProgramDeps, dir: string): ConsoleToken {
  const text = env["POSTERN_OPERATOR_TOKEN"]?.trim() ?? "";
  if (text !== "") return { token: new Secret(text), from: "POSTERN_OPERATOR_TOKEN" };
  if (!isLoopback(url.href)) return {};
  const files = openConfigDir(dir);
  if (!files.has("operator.toml")) return {};
  const { tokens } = files.checked(files.read({ name: "operator.toml", schema: operatorToml({ env, dir }) }));
  const token = tokens.find(({ role }) => role === "operator")?.token[0];
  return token === undefined ? {} : { token, from: join(dir, "operator.toml") };
}
