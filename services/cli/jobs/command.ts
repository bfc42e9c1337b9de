import type { Command } from "commander";
import { configDir, jobKeys, operatorUrl, usageError } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { ListOptions } from "./list.ts";
import type { PauseOptions } from "./pause.ts";
import type { ResumeOptions } from "./resume.ts";

/** `postern jobs ...`: its subcommands and their options. Each subcommand's work is in the file of its name. */
export function addJobs(program: Command, deps: ProgramDeps): void {
  const jobs = program.command("jobs").description("list, pause or resume jobs");
  jobs
    .command("list")
    .description("list the jobs that have calls or settings, with their queues, limits and states")
    .option("--json", "print JSON, one object a line")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (options: ListOptions) => {
      const { listJobs } = await import("./list.ts");
      deps.exitWith(await listJobs(deps, options));
    });
  jobs
    .command("pause")
    .description("stop sending the calls of these jobs to the runner; gateways continue to accept calls")
    .addArgument(jobKeys())
    .requiredOption("--reason <text>", "reason for the audit trail and the list of jobs")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (names: string[], options: PauseOptions, command: Command) => {
      if (options.reason.trim() === "") usageError(command, "--reason must not be empty");
      const { pauseJobs } = await import("./pause.ts");
      deps.exitWith(await pauseJobs(deps, names, options));
    });
  jobs
    .command("resume")
    .description("send the calls of these jobs to the runner again")
    .addArgument(jobKeys())
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (names: string[], options: ResumeOptions) => {
      const { resumeJobs } = await import("./resume.ts");
      deps.exitWith(await resumeJobs(deps, names, options));
    });
}
