import { createOpenedEndpoints } from "../../../shared/ingress/opened-endpoints.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine, plain } from "../text.ts";
import { withRedis } from "../with-redis.ts";

export type CloseOptions = { configDir: string; json?: boolean };

/** `postern endpoints close`: also for an endpoint that is no longer configured. 1 if it is not open. */
export function closeEndpoint(deps: ProgramDeps, path: string, options: CloseOptions): Promise<number> {
  return withRedis(deps, options, async ({ partition, clock, by: closer }) => {
    const act = { at: clock(), action: "close", path, by: closer, selection: "by path" } as const;
    const closed = await createOpenedEndpoints(partition).close(act);
    if (closed === undefined) throw new Error(`${plain(path)} is not open`);
    const { by, hadSecret } = closed;
    const lost = hadSecret ? "; a secret was received but not shown, and is deleted" : "";
    const inWords = `${path} is closed; it was opened by ${plain(by)}${lost}\n`;
    if (options.json) deps.print(jsonLine({ path, opened_by: by, secret_deleted: hadSecret }));
    deps.say(inWords);
    return EXIT.ok;
  });
}
