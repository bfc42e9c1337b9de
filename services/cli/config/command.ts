import { GROUP, type ProgramCommand } from "../command.ts";
import { configDir } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { CheckOptions } from "./check.ts";

/** Adds `postern config ...` with its options. Each subcommand is implemented in the file of its name. */
export function addConfig(program: ProgramCommand, deps: ProgramDeps): void {
  const config = program.command("config").description("check the configuration").helpGroup(GROUP.run);
  config
    .command("check")
    .description("list all errors of the configuration, and start nothing")
    .helpGroup(GROUP.look)
    .option("--online", "also check the contracts and nodes of the accepted tokens")
    .addOption(configDir())
    .examples("config check --config-dir /etc/postern", "config check --online")
    .action(async (options: CheckOptions) => {
      const { checkConfig } = await import("./check.ts");
      deps.exitWith(await checkConfig(deps, options));
    });
}
