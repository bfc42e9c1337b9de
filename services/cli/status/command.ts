import { GROUP, type ProgramCommand } from "../command.ts";
import { configDir, operatorUrl } from "../options.ts";
import { jsonOutput } from "../output-options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { StatusOptions } from "./status.ts";

const STATUS_COLUMNS = `
Columns:
  DELAYED       calls that wait until the time of their next attempt
  HELD          calls that wait until their endpoint is enabled
  IN FLIGHT     calls that a producer has sent to the runner
  OLDEST        age of the oldest waiting or delayed call
  ACCEPTED/MIN  calls accepted in the last minute
  INJECTED/MIN  calls that the runner answered with 2xx in the last minute
  FAILED/MIN    calls that failed in the last minute
  CONFIG        digest of the configuration of the process
  LOADED        time since the process has loaded it
The last minute is up to 20 seconds behind, the last hour up to 10 seconds.`;

export function addStatus(program: ProgramCommand, deps: ProgramDeps): void {
  program
    .command("status")
    .description(
      "show the queues by origin, the counts of the last hour, the running processes and the durability of Redis",
    )
    .helpGroup(GROUP.look)
    .option("--watch", "refresh every two seconds until Ctrl-C")
    .addOption(jsonOutput("print JSON, one object a line"))
    .addOption(operatorUrl())
    .addOption(configDir())
    .addHelpText("after", STATUS_COLUMNS)
    .examples("status", "status --watch")
    .action(async (options: StatusOptions, command: ProgramCommand) => {
      const { showStatus } = await import("./status.ts");
      const mayFindDev = command.getOptionValueSource("configDir") === "default";
      deps.exitWith(await showStatus(deps, { ...options, mayFindDev }));
    });
}
