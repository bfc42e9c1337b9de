import type { Command } from "commander";
import { configDir, jobKeys, operatorUrl, usageError } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { ListOptions } from "./list.ts";
import type { PauseOptions } from "./pause.ts";
import type { ResumeOptions } from "./resume.ts";

/** `postern jobs ...`: its subcommands and their options. Each subcommand's work is in the file of its name. */
export function addJobs(program: Command, deps: ProgramDeps): void {
  const jobs = program
    .command("jobs")
    .description("look at the jobs' queues and limits, pause or resume jobs");
  jobs
    .command("list")
    .description("list the jobs that have calls or settings: what waits, and whether calls are taken")
    .option("--json", "one JSON object a line; the count goes to stderr")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (options: ListOptions) => {
      const { listJobs } = await import("./list.ts");
      deps.exitWith(await listJobs(deps, options));
    });
  jobs
    .command("pause")
    .description("have no producer take calls of these jobs; gateways go on accepting them")
    .addArgument(jobKeys())
    .requiredOption("--reason <text>", "why, for the audit and for whoever lists the jobs")
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (names: string[], options: PauseOptions, command: Command) => {
      if (options.reason.trim() === "") usageError(command, "--reason is empty");
      const { pauseJobs } = await import("./pause.ts");
      deps.exitWith(await pauseJobs(deps, names, options));
    });
  jobs
    .command("resume")
    .description("have the calls of these jobs taken again")
    .addArgument(jobKeys())
    .addOption(operatorUrl())
    .addOption(configDir())
    .action(async (names: string[], options: ResumeOptions) => {
      const { resumeJobs } = await import("./resume.ts");
      deps.exitWith(await resumeJobs(deps, names, options));
    });
}
