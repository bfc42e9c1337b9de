import { Option } from "commander";
import { GROUP, type ProgramCommand } from "../command.ts";
import { wholeNumber } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { CHOICES, type InitOptions } from "./init-options.ts";

/** Adds `postern init [dir]`. Each question can also be answered by an option, for scripts. */
export function addInit(program: ProgramCommand, deps: ProgramDeps): void {
  program
    .command("init")
    .description("ask a few questions, and write a working configuration with new secrets")
    .helpGroup(GROUP.run)
    .argument("[dir]", "directory to write to", "config")
    .addOption(new Option("--accept <what>", "what to accept").choices(CHOICES.accept))
    .option(
      "--preset <name>",
      "preset of the sender, from docs/senders.md; 'none' for any other sender that signs with HMAC-SHA256",
    )
    .option("--endpoint <path>", "path of the endpoint (default: /hooks/<preset>)")
    .option("--job-index <n>", "number of the job to run, in its service", wholeNumber({ example: 1 }), 1)
    .option("--price <amount>", "price of a call, in tokens, such as 0.05")
    .addOption(
      new Option("--network <network>", "network of the accepted USDC")
        .choices(CHOICES.networks)
        .default("devnet"),
    )
    .option(
      "--pay-to <address>",
      "address that receives the payments; required for any network except devnet",
    )
    .option("--runner <url>", "URL of your runner")
    .option("--redis-url <url>", "URL of Redis", "redis://127.0.0.1:6379")
    .option("-y, --yes", "skip the questions, and use the default for each missing option")
    .option("--force", "overwrite existing files, except secrets")
    .examples("init", "init --yes --accept webhooks --preset github")
    .action(async (dir: string, options: InitOptions) => {
      const { initConfig } = await import("./init.ts");
      deps.exitWith(await initConfig(deps, dir, options));
    });
}
