import type { Operations } from "../../../shared/console/contract/contract.ts";
import { createFindNear } from "../../../shared/http/near-path.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { plain } from "../text.ts";

/** Says that no endpoint has this path, and which one was probably meant; undefined if one has. */
export function whyUnknown(
  path: string,
  endpoints: readonly { path: string }[] | undefined,
): string | undefined {
  if (endpoints === undefined) return "there is no webhooks.toml, so no endpoint is configured";
  return whyNoneOf(
    path,
    endpoints.map((each) => each.path),
  );
}

/** Compares a path with those of all endpoints. */
function whyNoneOf(path: string, paths: readonly string[]): string | undefined {
  if (paths.includes(path)) return undefined;
  const near = createFindNear(paths)(path);
  const meant = near === undefined ? "" : `; did you mean ${near.path}?`;
  return `no endpoint has the path ${plain(path)}${meant}`;
}

/**
 * Says that no configured endpoint has the path that calls are chosen by. Undefined if one has, or if no endpoint is known: these commands
 * need no webhooks.toml.
 */
export function whyNoneAt(path: string | undefined, paths: readonly string[]): string | undefined {
  return path === undefined || paths.length === 0 ? undefined : whyNoneOf(path, paths);
}

/**
 * Prints what `whyNoneAt` says, and returns the exit code; undefined if it says nothing. Only for a choice that found nothing: an endpoint
 * that is no longer configured still has calls.
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
