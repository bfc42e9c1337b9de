import { loadEndpointNames, type NamedEndpoint } from "../../../shared/config/endpoint-names.ts";
import { createFindNear } from "../../../shared/http/near-path.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { plain } from "../text.ts";
import type { Operated } from "../with-operations.ts";

/** Says that no endpoint has this path, and which one was probably meant; undefined if one has. */
export function whyUnknown(
  path: string,
  endpoints: readonly { path: string }[] | undefined,
): string | undefined {
  if (endpoints === undefined) return "there is no webhooks.toml, so there are no endpoints";
  const paths = endpoints.map((each) => each.path);
  if (paths.includes(path)) return undefined;
  const near = createFindNear(paths)(path);
  const meant = near === undefined ? "" : `; did you mean ${near.path}?`;
  return `no endpoint has the path ${plain(path)}${meant}`;
}

/**
 * Says that no endpoint of the configuration here has the path that calls are chosen by. Undefined if one has, or if the endpoints are not
 * known: they are elsewhere if a console is asked, and these commands need no webhooks.toml.
 */
export function whyNoneAt(path: string | undefined, { operator, configDir }: Operated): string | undefined {
  if (path === undefined || operator !== undefined) return undefined;
  const endpoints = knownEndpoints(configDir);
  return endpoints && whyUnknown(path, endpoints);
}

function knownEndpoints(dir: string): readonly NamedEndpoint[] | undefined {
  try {
    return loadEndpointNames(dir);
  } catch {
    return undefined;
  }
}

/**
 * Prints what `whyNoneAt` says, and returns the exit code; undefined if it says nothing. Only for a choice that found nothing: an endpoint
 * that is no longer configured still has calls.
 */
export function refuseUnknownPath(
  { printError }: ProgramDeps,
  path: string | undefined,
  operated: Operated,
): number | undefined {
  const problem = whyNoneAt(path, operated);
  if (problem === undefined) return undefined;
  printError(`error: ${problem}\n`);
  return EXIT.usage;
}
