import { loadEndpointNames } from "../../../shared/config/endpoint-names.ts";
import { createFindNear } from "../../../shared/http/near-path.ts";
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
 * Says that no endpoint of the configuration here has the path that calls are chosen by; undefined if one has, or if a console is asked,
 * whose configuration is elsewhere. For a choice that finds nothing: calls of an endpoint that is no longer configured are found.
 */
export function whyNoneAt(path: string | undefined, { operator, configDir }: Operated): string | undefined {
  if (path === undefined || operator !== undefined) return undefined;
  return whyUnknown(path, loadEndpointNames(configDir));
}
