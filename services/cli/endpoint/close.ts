import { createOpenedEndpoints } from "../../../shared/gateway/opened-endpoints.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { plain } from "../text.ts";
import { withRedis } from "../with-redis.ts";

export type CloseOptions = { configDir: string };

/** `postern endpoint close`: also for an endpoint that is no longer configured. 1 if it is not open. */
export function closeEndpoint(deps: ProgramDeps, path: string, options: CloseOptions): Promise<number> {
  return withRedis(deps, options, async ({ redis }) => {
    const closed = await createOpenedEndpoints(redis).close(path);
    if (closed === undefined) throw new Error(`${plain(path)} is not open`);
    const lost = closed.hadSecret ? "; a secret had come, which nobody has seen: it is deleted" : "";
    deps.print(`${path} is closed; ${plain(closed.by)} had opened it${lost}\n`);
    return EXIT.ok;
  });
}
