import type { Command } from "commander";
import { configDir } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { SecretOptions } from "./secret.ts";

/** `postern callbacks ...`: its subcommands and their options. Each subcommand's work is in the file of its name. */
export function addCallbacks(program: Command, deps: ProgramDeps): void {
  const callbacks = program
    .command("callbacks")
    .description("print what a receiver of callbacks verifies with");
  callbacks
    .command("secret")
    .description("print the secret of one receiver, one line for each [callbacks] secret")
    .argument("<url>", "the receiver's URL, as in callback_url or the request's header")
    .option("--json", "one JSON object")
    .addOption(configDir())
    .action(async (url: string, options: SecretOptions) => {
      const { printReceiverSecret } = await import("./secret.ts");
      deps.exitWith(printReceiverSecret(deps, url, options));
    });
}
