import type { Command } from "commander";
import { callId, configDir, usageError } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { ForgetOptions } from "./forget.ts";

/** `postern calls ...`: its subcommands and their options. Each subcommand's work is in the file of its name. */
export function addCalls(program: Command, deps: ProgramDeps): void {
  const calls = program.command("calls").description("have what is kept of a call's sender forgotten");
  addForget(calls, deps);
}

function addForget(calls: Command, deps: ProgramDeps): void {
  calls
    .command("forget")
    .description(
      "delete body, metadata, result and attempts of a call that has ended or failed; it stays known, and never runs again",
    )
    .addArgument(callId())
    .requiredOption("--reason <text>", "why, for the audit")
    .option("--yes", "do not ask")
    .addOption(configDir())
    .action(async (id: string, options: ForgetOptions, command: Command) => {
      if (options.reason.trim() === "") usageError(command, "--reason is empty");
      if (!options.yes && !deps.terminal.canAsk)
        usageError(command, "nobody is there to be asked; --yes forgets without asking");
      const { forgetCall } = await import("./forget.ts");
      deps.exitWith(await forgetCall(deps, id, options));
    });
}
