import type { Operations } from "../../../shared/console/contract/contract.ts";
import type { JobChange, JobView } from "../../../shared/console/jobs.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type JobOptions = OperationTarget & { json?: boolean };

/** Outcome of the action on one job. With -o json the command prints `answer`, and otherwise `line`. */
type Outcome = { answer: object; isDone: boolean; line: string };

export type Reached = Pick<JobChange, "partitions">;

/** Whether the change reached all partitions. */
export function isEverywhere({ partitions }: Reached): boolean {
  return partitions === undefined || partitions.unreached.length === 0;
}

/**
 * Performs one action, such as a pause, on each of these jobs. Exit code 1 if the action changed nothing on at least
 * one job, or did not reach all its partitions.
 */
export function forEachJob(
  deps: ProgramDeps,
  names: readonly string[],
  options: JobOptions,
  act: (operations: Operations, job: string) => Promise<Outcome>,
): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    let code: number = EXIT.ok;
    for (const name of names) {
      const { answer, isDone, line } = await act(operations, name);
      if (options.json) deps.print(jsonLine(answer));
      if (isDone) deps.say(`${line}\n`);
      else {
        deps.printError(`${line}\n`);
        code = EXIT.failed;
      }
    }
    return code;
  });
}

/**
 * Says how many partitions the change has reached. `later` says what will happen in the partitions that cannot be
 * reached now. Empty if the change has reached all.
 */
export function partitionsText({ partitions }: Reached, later: string): string {
  const { of: all = 0, unreached = [] } = partitions ?? {};
  if (unreached.length === 0) return "";
  const [which, are] = unreached.length === 1 ? ["partition", "is"] : ["partitions", "are"];
  const away = `${which} ${unreached.join(", ")} cannot be reached`;
  return ` in ${all - unreached.length} of ${all} partitions; ${away}, and ${are} ${later}`;
}

/**
 * Returns the job's name. The console lists a receiver of callbacks as a job with the name `callback/HOST`. If its
 * callbacks go to several ports, adds the ports.
 */
export function nameWithPorts({ job, ports = [] }: JobView): string {
  return ports.length > 1 ? `${job} (ports ${ports.join(" and ")})` : job;
}
