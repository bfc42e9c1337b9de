import { readTarget } from "../../../shared/call/callback-target.ts";
import { GROUP, type ProgramCommand } from "../command.ts";
import { configDir, refuseValue } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { SecretOptions } from "./show-secret.ts";

/** Adds `postern callbacks ...` with its options. Each subcommand is implemented in the file of its name. */
export function addCallbacks(program: ProgramCommand, deps: ProgramDeps): void {
  const callbacks = program
    .command("callbacks")
    .description("print the secret that a receiver verifies callbacks with")
    .helpGroup(GROUP.look);
  callbacks
    .command("show-secret")
    .description("print the secret of a receiver: one line for each secret in [callbacks] of postern.toml")
    .helpGroup(GROUP.look)
    .argument(
      "<url>",
      "URL of the receiver, as in callback_url or in the X-PLATFORM-CALLBACK header of a request",
      parseReceiverUrl,
    )
    .addOption(configDir())
    .examples("callbacks show-secret https://hooks.example.com/postern")
    .action(async (url: string, options: SecretOptions) => {
      const { printReceiverSecret } = await import("./show-secret.ts");
      deps.exitWith(printReceiverSecret(deps, url, options));
    });
}

function parseReceiverUrl(text: string): string {
  const read = readTarget(text);
  return "problem" in read ? refuseValue(read.problem, "https://hooks.example.com/told") : text;
}
