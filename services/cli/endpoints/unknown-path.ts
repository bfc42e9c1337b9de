import type { Operations } from "../../../shared/console/contract/contract.ts";
import { createFindNear } from "../../../shared/http/near-path.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { plain } from "../text.ts";

/** Says that no endpoint has this path, and suggests a similar one; undefined if an endpoint has it. */
export function whyUnknown(
  path: string,
  endpoints: readonly { path: string }[] | undefined,
): string | undefined {
  if (endpoints === undefined) return "there is no webhooks.toml, so no endpoint is configured";
  return whyNotListed(
    path,
    endpoints.map((each) => each.path),
  );
}

/** Says that `paths` does not contain this path, and suggests a similar one; undefined if `paths` contains it. */
function whyNotListed(path: string, paths: readonly string[]): string | undefined {
  if (paths.includes(path)) return undefined;
  const near = createFindNear(paths)(path);
  const meant = near === undefined ? "" : `; did you mean ${near.path}?`;
  return `no endpoint has the path ${plain(path)}${meant}`;
}

/**
 * Checks a path by which the user filters a list. Returns the problem if no configured endpoint has this path, and
 * otherwise undefined. If no endpoint is configured, every path is accepted: the command may run on a machine without
 * webhooks.toml.
 */
export function whyNoneAt(path: string | undefined, paths: readonly string[]): string | undefined {
  return path === undefined || paths.length === 0 ? undefined : whyNotListed(path, paths);
}

/**
 * Checks a path by which the user filtered a list (`whyNoneAt`). If no configured endpoint has it, prints that and
 * returns the exit code. Call this only if the list is empty, because an endpoint that is no longer configured may
 * still have calls.
 */
export async function refuseUnknownPath(
  { printError }: ProgramDeps,
  path: string | undefined,
  { getConfiguredNames }: Operations,
): Promise<number | undefined> {
  if (path === undefined) return undefined;
  const problem = whyNoneAt(path, (await getConfiguredNames()).endpoints);
  if (problem === undefined) return undefined;
  printError(`error: ${problem}\n`);
  return EXIT.usage;
}
