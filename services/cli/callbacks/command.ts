import type { Command } from "commander";
import { readTarget } from "../../../shared/call/callback-target.ts";
import { configDir, refuseValue } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { SecretOptions } from "./secret.ts";

/** `postern callbacks ...`: its subcommands and their options. Each subcommand's work is in the file of its name. */
export function addCallbacks(program: Command, deps: ProgramDeps): void {
  const callbacks = program
    .command("callbacks")
    .description("print the secret that a receiver verifies callbacks with");
  callbacks
    .command("secret")
    .description("print the secret of a receiver: one line for each secret in [callbacks] of postern.toml")
    .argument(
      "<url>",
      "URL of the receiver, as in callback_url or in the X-PLATFORM-CALLBACK header of a request",
      parseReceiverUrl,
    )
    .option("--json", "print one JSON object")
    .addOption(configDir())
    .action(async (url: string, options: SecretOptions) => {
      const { printReceiverSecret } = await import("./secret.ts");
      deps.exitWith(printReceiverSecret(deps, url, options));
    });
}

function parseReceiverUrl(text: string): string {
  const read = readTarget(text);
  return "problem" in read ? refuseValue(read.problem, "https://hooks.example.com/told") : text;
}
