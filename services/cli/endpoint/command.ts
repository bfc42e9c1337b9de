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
    .description("receive the secret that a sender, such as Asana, sends in its first request");
  endpoint
    .command("open")
    .description(
      "wait for the request in which the sender sends its secret (a handshake), and print the secret once; Ctrl-C stops waiting",
    )
    .argument("<path>", "path of the endpoint")
    .option(
      "--minutes <n>",
      "minutes to wait for the secret",
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
    .description("stop waiting for a secret, and delete one that was not shown")
    .argument("<path>", "path of the endpoint")
    .option("--json", "print one JSON object")
    .addOption(configDir())
    .action(async (path: string, options: CloseOptions) => {
      const { closeEndpoint } = await import("./close.ts");
      deps.exitWith(await closeEndpoint(deps, path, options));
    });
}
