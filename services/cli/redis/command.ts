import { GROUP, type ProgramCommand } from "../command.ts";
import { configDir, sinceOption, usageError } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { AdoptOptions } from "./adopt.ts";

/** `postern redis ...`: its subcommands and their options. Each subcommand's work is in the file of its name. */
export function addRedis(program: ProgramCommand, deps: ProgramDeps): void {
  const redis = program
    .command("redis")
    .description("adopt a Redis whose data was lost or restored")
    .helpGroup(GROUP.act);
  redis
    .command("adopt")
    .description(
      "have all processes use this Redis as it is; no job is sold until `postern payments audit` covers the lost time",
    )
    .helpGroup(GROUP.act)
    .requiredOption("--reason <text>", "reason for the audit trail")
    .addOption(
      sinceOption("data is lost that was written").default(undefined, "the last report in this Redis"),
    )
    .option("--without-audit", "sell at once: nothing was sold, or no chain can be queried")
    .option("--replace <id>", "adopt the data of this deployment, which no longer uses it")
    .addOption(configDir())
    .examples('redis adopt --reason "disk lost, backup of 03:00 restored"')
    .action(async (options: AdoptOptions, command: ProgramCommand) => {
      if (options.reason.trim() === "") usageError(command, "--reason must not be empty");
      if (options.withoutAudit && options.since !== undefined)
        usageError(command, "--since is not used with --without-audit");
      const { adoptRedis } = await import("./adopt.ts");
      deps.exitWith(await adoptRedis(deps, options));
    });
}
