import type { Command } from "commander";
import { configDir, wholeNumber } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { CloseOptions } from "./close.ts";
import type { OpenOptions } from "./open.ts";

const MINUTES = 10;

/** `postern endpoint ...`: its subcommands and their options. Each subcommand's work is in the file of its name. */
export function addEndpoint(program: Command, deps: ProgramDeps): void {
  const endpoint = program
    .command("endpoint")
    .description("have an endpoint take the secret that its sender gives in a handshake");
  endpoint
    .command("open")
    .description("open an endpoint for one secret, wait for it, and show it once; Ctrl-C closes the endpoint")
    .argument("<path>", "the endpoint's path")
    .option("--minutes <n>", "how long", wholeNumber("a number of minutes", { min: 1, max: 120 }), MINUTES)
    .option("--json", "one JSON object")
    .addOption(configDir())
    .action(async (path: string, options: OpenOptions) => {
      const { openEndpoint } = await import("./open.ts");
      deps.exitWith(await openEndpoint(deps, path, options));
    });
  endpoint
    .command("close")
    .description("close an endpoint that somebody has opened; a secret that was not shown is deleted")
    .argument("<path>", "the endpoint's path")
    .option("--json", "one JSON object")
    .addOption(configDir())
    .action(async (path: string, options: CloseOptions) => {
      const { closeEndpoint } = await import("./close.ts");
      deps.exitWith(await closeEndpoint(deps, path, options));
    });
}
