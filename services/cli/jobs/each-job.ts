import type { Operations } from "../../../shared/console/contract/contract.ts";
import type { JobChange, JobView } from "../../../shared/console/jobs.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";

export type JobOptions = Operated & { json?: boolean };

/** `answer` is for -o json, `line` for people. */
type Outcome = { answer: object; isDone: boolean; line: string };

export type Reached = Pick<JobChange, "partitions">;

/** Whether no partition was left out. */
export function isEverywhere({ partitions }: Reached): boolean {
  return partitions === undefined || partitions.unreached.length === 0;
}

/** Does one thing to each of these jobs. 1 if it was not done to one of them. */
export function toEachJob(
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

/** Says in how many partitions something is done, and what happens in the others later; nothing if it is done in all. */
export function inPartitions({ partitions }: Reached, later: string): string {
  const { of: all = 0, unreached = [] } = partitions ?? {};
  if (unreached.length === 0) return "";
  const [which, are] = unreached.length === 1 ? ["partition", "is"] : ["partitions", "are"];
  const away = `${which} ${unreached.join(", ")} cannot be reached`;
  return ` in ${all - unreached.length} of ${all} partitions; ${away}, and ${are} ${later}`;
}

/** The job's name, and which ports that of a receiver without a port stands for. */
export function named({ job, ports = [] }: JobView): string {
  return ports.length > 1 ? `${job} (ports ${ports.join(" and ")})` : job;
}
