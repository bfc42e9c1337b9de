import type { Operations } from "../../../shared/console/contract/contract.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine, plain } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type ReloadOptions = OperationTarget & { reason: string; json?: boolean };

/**
 * Time limit until all processes have reloaded their configuration. Each process notices the request within ten
 * seconds, with its next report. A payment gateway then also checks the nodes and facilitators in the new
 * configuration.
 */
const WAIT_MS = 30_000;
const POLL_MS = 500;

/**
 * `postern reload`: makes all processes read their configuration again. Exit code 1 if a process does not use its new
 * configuration within the time limit.
 */
export function reloadAll(deps: ProgramDeps, options: ReloadOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const { number } = await operations.askReload({ reason: options.reason });
    deps.note("waiting for the processes, each of which looks every 10 s ...\n");
    const processes = await untilDone(operations, number);
    for (const process of processes) {
      const { kind, host, pid, config, config_problem: problem } = process;
      const state = stateOf(process, number);
      if (options.json) deps.print(jsonLine({ kind, host, pid, state, config, problem }));
      const why = state === "unchanged" && problem !== null ? `: ${plain(problem)}` : "";
      deps.say(`${plain(`${kind} ${host} ${pid}`)}: ${STATES[state]} (${plain(config)})${why}\n`);
    }
    if (processes.length === 0) deps.note("no process has reported\n");
    return processes.every((process) => stateOf(process, number) === "loaded") ? EXIT.ok : EXIT.failed;
  });
}

type Process = Awaited<ReturnType<Operations["getOverview"]>>["processes"][number];

const STATES = {
  loaded: "the configuration is in force",
  unchanged: "the previous configuration is still in force",
  silent: "has not read it yet: see postern status",
};

function stateOf({ reloads, config_problem }: Process, number: number): keyof typeof STATES {
  if (reloads < number) return "silent";
  return config_problem === null ? "loaded" : "unchanged";
}

/** Polls until all processes have completed the reload with this number, or `WAIT_MS` has passed. Resolves with the processes. */
async function untilDone(operations: Operations, number: number): Promise<Process[]> {
  const until = performance.now() + WAIT_MS;
  for (;;) {
    const { processes } = await operations.getOverview();
    if (processes.every(({ reloads }) => reloads >= number) || performance.now() > until) return processes;
    await delay(POLL_MS);
  }
}
