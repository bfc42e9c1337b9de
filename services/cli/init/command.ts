import { type Command, Option } from "commander";
import { wholeNumber } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { CHOICES, type InitOptions } from "./init-options.ts";

/** `postern init [dir]`: each question is an option too, for scripts. */
export function addInit(program: Command, deps: ProgramDeps): void {
  program
    .command("init")
    .description("ask three questions and write a configuration that starts, with new secrets")
    .argument("[dir]", "where it is written", "config")
    .addOption(new Option("--ways <in>", "what comes in").choices(CHOICES.ways))
    .option("--preset <name>", "the sender of webhooks, of docs/senders.md; none: any, with HMAC-SHA256")
    .option("--path <path>", "the path of the endpoint (default: /hooks/<preset>)")
    .option("--job <n>", "the job that runs", wholeNumber("a job index"), 1)
    .option("--price <amount>", "what a run of the job costs, in tokens, as 0.05")
    .addOption(new Option("--token <where>", "what it is paid in").choices(CHOICES.tokens).default("devnet"))
    .option("--pay-to <address>", "who is paid; for any token but the worthless one of postern devnet")
    .option("--runner <url>", "where your runner is")
    .option("--redis-url <url>", "where Redis is", "redis://127.0.0.1:6379")
    .option("-y, --yes", "ask nothing: what is not given is as proposed")
    .option("--force", "write over files that are there, but for secrets")
    .action(async (dir: string, options: InitOptions) => {
      const { initConfig } = await import("./init.ts");
      deps.exitWith(await initConfig(deps, dir, options));
    });
}
