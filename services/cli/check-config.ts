import { Command } from "commander";
import { loadConfig } from "../../shared/config/load-config.ts";
import { toAppError } from "../../shared/errors/app-error.ts";
import { EXIT } from "../../shared/lifecycle/run-service.ts";
import { configDir } from "./options.ts";
import type { ProgramDeps } from "./program-deps.ts";

/** `postern check-config`: what a start would say of the configuration, without starting. */
export function checkConfig({ env, print, printError, exitWith }: ProgramDeps): Command {
  return new Command("check-config")
    .description("say everything that is wrong with the configuration, and start nothing")
    .addOption(configDir())
    .action(({ configDir: dir }: { configDir: string }) => {
      try {
        const { webhooks, warnings } = loadConfig({ dir, env });
        for (const warning of warnings) printError(`warning: ${warning}\n`);
        const gateway =
          webhooks === undefined ? "off (no webhooks.toml)" : `${webhooks.endpoints.length} endpoints`;
        print(`${dir}: the configuration is valid; webhooks gateway: ${gateway}\n`);
      } catch (thrown) {
        printError(`${toAppError(thrown).message}\n`);
        exitWith(EXIT.config);
      }
    });
}
