import { loadConfig } from "../../shared/config/load-config.ts";
import { toAppError } from "../../shared/errors/app-error.ts";
import { EXIT } from "../../shared/lifecycle/run-service.ts";
import type { ProgramDeps } from "./program-deps.ts";

/** `postern check-config`: what a start would say of the configuration, without starting. */
export function checkConfig(
  { env, print, printError }: ProgramDeps,
  { configDir }: { configDir: string },
): number {
  try {
    const { webhooks, warnings } = loadConfig({ dir: configDir, env });
    for (const warning of warnings) printError(`warning: ${warning}\n`);
    const gateway =
      webhooks === undefined ? "off (no webhooks.toml)" : `${webhooks.endpoints.length} endpoints`;
    print(`${configDir}: the configuration is valid; webhooks gateway: ${gateway}\n`);
    return EXIT.ok;
  } catch (thrown) {
    printError(`${toAppError(thrown).message}\n`);
    return EXIT.config;
  }
}
