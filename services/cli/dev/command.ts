import { GROUP, type ProgramCommand } from "../command.ts";
import { parseUrl, wholeNumber } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";

type DevOptions = {
  configDir?: string;
  serviceId?: string;
  runner?: URL;
  portBase?: number;
  verbose?: boolean;
};

/** Maximum of --port-base. It leaves enough higher port numbers for everything that `postern dev` starts. */
const PORT_BASE_MAX = 65_500;

export function addDev(program: ProgramCommand, { services, exitWith }: ProgramDeps): void {
  program
    .command("dev")
    .description("run everything on this machine, with a private Redis")
    .helpGroup(GROUP.run)
    .examples("dev", "dev --runner http://127.0.0.1:7000 --port-base 9000")
    .option("--config-dir <dir>", "configuration directory (default: a new example configuration)")
    .option(
      "--service-id <n>",
      "number of the service, which is a group of jobs (default: POSTERN_SERVICE_ID, else 0)",
    )
    .option("--runner <url>", "URL of your own runner, which replaces the reference runner", parseUrl)
    .option(
      "--port-base <n>",
      "use fixed ports, starting at n",
      wholeNumber({ example: 9000, min: 1, max: PORT_BASE_MAX }),
    )
    .option("--verbose", "print all logs of the processes (default on a terminal: only warnings and errors)")
    .action(async ({ configDir, serviceId, runner, portBase, verbose = false }: DevOptions) =>
      exitWith(await services.dev({ configDir, serviceId, runner, portBase, verbose })),
    );
}
