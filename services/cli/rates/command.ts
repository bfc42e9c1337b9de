import { GROUP, type ProgramCommand } from "../command.ts";
import { configDir, operatorUrl } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { RatesOptions } from "./list.ts";

/** Adds `postern rates ...` with its options. Each subcommand is implemented in the file of its name. */
export function addRates(program: ProgramCommand, deps: ProgramDeps): void {
  const rates = program
    .command("rates")
    .description("list the rates of the accepted tokens")
    .helpGroup(GROUP.money);
  rates
    .command("list")
    .description("list the rates of the accepted tokens, with their sources and ages")
    .helpGroup(GROUP.look)
    .option(
      "--test",
      "query every source now, from this machine, and show its answer; the gateways keep their current rates",
    )
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("rates list", "rates list --test")
    .action(async (options: RatesOptions) => {
      const { showRates } = await import("./list.ts");
      deps.exitWith(await showRates(deps, options));
    });
}
