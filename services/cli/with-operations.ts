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

/** Where an operator's command looks and acts: in Redis, or by the console at this URL. */
export type Operated = { configDir: string; operator?: URL };

/** As `withRedis`, for what the console can do too. */
export function withOperations(
  deps: ProgramDeps,
  { configDir, operator: url }: Operated,
  work: (operations: Operations) => Promise<number>,
): Promise<number> {
  if (url === undefined)
    return withRedis(deps, { configDir }, (session) => work(onRedis(session, deps, configDir)));
  return withConsole(deps, { configDir, url }, async (target) => {
    const { createConsoleClient } = await import("./console/client.ts");
    return work(createConsoleClient(target));
  });
}

/** Runs `work` with the console at a URL and the token for it, and resolves with its exit code as `withRedis` does. */
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

/** The operations on Redis. A bulk operation is done by this process. */
function onRedis(session: Session, { env }: ProgramDeps, configDir: string): Operations {
  const { partition, partitions, clock, log, postern } = session;
  const kinds = bulkWorkers({ ...session, listedMax: Number.POSITIVE_INFINITY });
  const runs = createLocalRuns({ kinds, audit: createAudit(partition, log), clock });
  const overview = createOverview({ partitions, clock, configDir, env, ...toDurability(postern.redis) });
  const jobNames = createJobNames(configDir);
  return clientOf(OPERATIONS, createHandlers({ ...session, runs, overview, jobNames }));
}

/** Adds where the token is from, and what to do, to the error of a refused token. */
function withAdvice(error: unknown, from: string | undefined): unknown {
  if (!(error instanceof AppError) || error.code !== "operator.unauthorized") return error;
  const shown = from === undefined ? "" : `, from ${from}`;
  const advice = "set POSTERN_OPERATOR_TOKEN to a token from [[tokens]] in the console's operator.toml";
  return AppError.public(error.code, `${error.message}${shown}: ${advice}`);
}

/** The token for the console, and its place. */
type Shown = { token?: Secret; from?: string };

/**
 * The variable's; else, for a console on this machine, the first operator's in its configuration. That one is for no other URL, lest a
 * mistyped one gets it.
 */
function tokenFor(url: URL, { env }: ProgramDeps, dir: string): Shown {
  const text = env["POSTERN_OPERATOR_TOKEN"]?.trim() ?? "";
  if (text !== "") return { token: new Secret(text), from: "POSTERN_OPERATOR_TOKEN" };
  if (!isLoopback(url.href)) return {};
  const files = openConfigDir(dir);
  if (!files.has("operator.toml")) return {};
  const { tokens } = files.checked(files.read({ name: "operator.toml", schema: operatorToml({ env, dir }) }));
  const token = tokens.find(({ role }) => role === "operator")?.token[0];
  return token === undefined ? {} : { token, from: join(dir, "operator.toml") };
}
