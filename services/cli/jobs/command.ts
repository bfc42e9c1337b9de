import { GROUP, type ProgramCommand } from "../command.ts";
import { configDir, jobKey, jobKeys, operatorUrl, usageError } from "../options.ts";
import { listOutput } from "../output-options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { JobOptions } from "./each-job.ts";
import type { ListOptions } from "./list.ts";
import type { PauseOptions } from "./pause.ts";
import type { ShowOptions } from "./show.ts";

/** Adds `postern jobs ...` with its options. Each subcommand is implemented in the file of its name. */
export function addJobs(program: ProgramCommand, deps: ProgramDeps): void {
  const jobs = program
    .command("jobs")
    .description("list, show, pause or resume jobs, or run their delayed calls")
    .helpGroup(GROUP.act);
  jobs
    .command("list")
    .description("list the jobs that have calls or settings, with their queues, limits and states")
    .helpGroup(GROUP.look)
    .addOption(listOutput())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("jobs list")
    .action(async (options: ListOptions) => {
      const { listJobs } = await import("./list.ts");
      deps.exitWith(await listJobs(deps, options));
    });
  jobs
    .command("show")
    .description("show the queue, limits and pause of a job, or of callbacks")
    .helpGroup(GROUP.look)
    .addArgument(jobKey())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("jobs show 7/1", "jobs show callback/hooks.example.com")
    .action(async (job: string, options: ShowOptions) => {
      const { showJob } = await import("./show.ts");
      deps.exitWith(await showJob(deps, job, options));
    });
  addActs(jobs, deps);
}

function addActs(jobs: ProgramCommand, deps: ProgramDeps): void {
  jobs
    .command("pause")
    .description("stop sending the calls of these jobs to the runner; gateways continue to accept calls")
    .helpGroup(GROUP.act)
    .addArgument(jobKeys())
    .requiredOption("--reason <text>", "reason for the audit log and the list of jobs")
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples('jobs pause 7/1 7/2 --reason "its database is down"')
    .action(async (names: string[], options: PauseOptions, command: ProgramCommand) => {
      if (options.reason.trim() === "") usageError(command, "--reason must not be empty");
      const { pauseJobs } = await import("./pause.ts");
      deps.exitWith(await pauseJobs(deps, names, options));
    });
  jobs
    .command("resume")
    .description("send the calls of these jobs to the runner again")
    .helpGroup(GROUP.act)
    .addArgument(jobKeys())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("jobs resume 7/1")
    .action(async (names: string[], options: JobOptions) => {
      const { resumeJobs } = await import("./resume.ts");
      deps.exitWith(await resumeJobs(deps, names, options));
    });
  jobs
    .command("run-delayed")
    .description("run the delayed calls of these jobs now; if their runner still fails, the attempts count")
    .helpGroup(GROUP.act)
    .addArgument(jobKeys())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("jobs run-delayed 7/1", "jobs run-delayed callback/hooks.example.com")
    .action(async (names: string[], options: JobOptions) => {
      const { runDelayedCalls } = await import("./run-delayed.ts");
      deps.exitWith(await runDelayedCalls(deps, names, options));
    });
}
