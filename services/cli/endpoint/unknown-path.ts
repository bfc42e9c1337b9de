import { createFindNear } from "../../../shared/http/near-path.ts";
import { plain } from "../text.ts";

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
