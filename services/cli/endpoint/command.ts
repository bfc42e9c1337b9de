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
    .description("open or close an endpoint for the handshake that brings its secret");
  endpoint
    .command("open")
    .description(
      "open an endpoint for the handshake that brings its secret, wait for the secret and print it once; Ctrl-C closes the endpoint",
    )
    .argument("<path>", "path of the endpoint")
    .option(
      "--minutes <n>",
      "minutes that the endpoint stays open",
      wholeNumber(MINUTES, { min: 1, max: 120 }),
      MINUTES,
    )
    .option("--json", "print one JSON object")
    .addOption(configDir())
    .action(async (path: string, options: OpenOptions) => {
      const { openEndpoint } = await import("./open.ts");
      deps.exitWith(await openEndpoint(deps, path, options));
    });
  endpoint
    .command("close")
    .description("close an open endpoint, and delete a secret that was not shown")
    .argument("<path>", "path of the endpoint")
    .option("--json", "print one JSON object")
    .addOption(configDir())
    .action(async (path: string, options: CloseOptions) => {
      const { closeEndpoint } = await import("./close.ts");
      deps.exitWith(await closeEndpoint(deps, path, options));
    });
}
