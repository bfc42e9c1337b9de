import { GROUP, type ProgramCommand } from "../command.ts";
import { configDir, operatorUrl } from "../options.ts";
import { jsonOutput } from "../output-options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { ReloadOptions } from "./reload.ts";

export function addReload(program: ProgramCommand, deps: ProgramDeps): void {
  program
    .command("reload")
    .description("have all processes read their configuration again, and wait for the result of each")
    .helpGroup(GROUP.act)
    .option("--reason <text>", "reason for the audit log", "the configuration has changed")
    .addOption(jsonOutput("print JSON, one object for each process"))
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("reload", 'reload --reason "new endpoint for Stripe"')
    .action(async (options: ReloadOptions) => {
      const { reloadAll } = await import("./reload.ts");
      deps.exitWith(await reloadAll(deps, options));
    });
}
