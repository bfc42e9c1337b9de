import { InvalidArgumentError } from "commander";
import { GROUP, type ProgramCommand } from "../command.ts";
import { configDir, sinceTime, usageError } from "../options.ts";
import { jsonOutput } from "../output-options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { AdoptOptions } from "./adopt.ts";
import type { RemoveNodeOptions } from "./remove-node.ts";

/** Adds `postern redis ...` with its options. Each subcommand is implemented in the file of its name. */
export function addRedis(program: ProgramCommand, deps: ProgramDeps): void {
  const redis = program
    .command("redis")
    .description("adopt a Redis whose data was lost or restored, or remove a replica that never returns")
    .helpGroup(GROUP.act);
  redis
    .command("remove-node")
    .description(
      "make all sentinels, or all nodes of the Redis Cluster, forget a replica that never returns, so that no write waits for it",
    )
    .helpGroup(GROUP.act)
    .argument("<address>", "host:port of the replica, as `postern status` names it", parseNode)
    .option("--yes", "skip the confirmation prompt")
    .addOption(jsonOutput("print one JSON object"))
    .addOption(configDir())
    .examples("redis remove-node 10.0.0.3:6379")
    .action(async (address: string, options: RemoveNodeOptions, command: ProgramCommand) => {
      if (!options.yes && !deps.terminal.canAsk)
        usageError(command, "--yes is required when stdin is not a terminal");
      const { removeNode } = await import("./remove-node.ts");
      deps.exitWith(await removeNode(deps, address, options));
    });
  redis
    .command("adopt")
    .description(
      "make all processes use this Redis as it is; no job is sold until `postern payments audit` covers the lost time",
    )
    .helpGroup(GROUP.act)
    .requiredOption("--reason <text>", "reason for the audit log")
    .addOption(sinceTime("time from which data is lost").default(undefined, "the last report in this Redis"))
    .option("--without-audit", "sell at once; only if nothing was sold, or no chain can be queried")
    .option(
      "--replace <id>",
      "take over the data of the deployment with this id, which must have stopped using it",
    )
    .option("--yes", "skip the confirmation prompt")
    .addOption(configDir())
    .examples('redis adopt --reason "disk lost, backup of 03:00 restored"')
    .action(async (options: AdoptOptions, command: ProgramCommand) => {
      if (options.reason.trim() === "") usageError(command, "--reason must not be empty");
      if (options.withoutAudit && options.since !== undefined)
        usageError(command, "--since is not used with --without-audit");
      if (!options.yes && !deps.terminal.canAsk)
        usageError(command, "--yes is required when stdin is not a terminal");
      const { adoptRedis } = await import("./adopt.ts");
      deps.exitWith(await adoptRedis(deps, options));
    });
}

function parseNode(text: string): string {
  if (/^(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+):\d{1,5}$/.test(text)) return text;
  throw new InvalidArgumentError("it must be host:port, for example 10.0.0.3:6379");
}
