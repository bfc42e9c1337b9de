import type { Command } from "commander";
import { configDir } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { RatesOptions } from "./rates.ts";

/** `postern rates`: what each token's rate is and where it comes from. */
export function addRates(program: Command, deps: ProgramDeps): void {
  program
    .command("rates")
    .description("show what the accepted tokens' rates are, where they come from and how old they are")
    .option(
      "--test",
      "read every source now, and say what each answers; what the gateways use stays as it is",
    )
    .option("--json", "one JSON object")
    .addOption(configDir())
    .action(async (options: RatesOptions) => {
      const { showRates } = await import("./rates.ts");
      deps.exitWith(await showRates(deps, options));
    });
}
